"""The process: transports, connections, dispatch, methods, sweeper, leadership, configuration and the command line."""
