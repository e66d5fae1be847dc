"""The command line, a file per command. Those named by no command are what several of them share."""
