"""The process from outside: real files, real sockets, real ends."""
