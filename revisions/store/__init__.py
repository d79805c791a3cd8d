"""Functions over a connection, one file per table family."""
