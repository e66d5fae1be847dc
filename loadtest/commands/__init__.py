"""One file per subcommand of `understudy load`; each holds its options and imports the rest when called."""
