"""The command line, one file per resource."""
