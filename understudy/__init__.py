"""STARTS: the command line, the settings, and the processes that run the gateway and its helpers."""
