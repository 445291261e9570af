"""The process: its pieces one by one, with real files, sockets and subprocesses."""
