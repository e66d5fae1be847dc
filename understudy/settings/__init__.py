"""Every setting, a file per group of them; how a file of settings is read, and how the example is written."""
