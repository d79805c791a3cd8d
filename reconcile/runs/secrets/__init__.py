"""Sources of secrets: plug-ins, one file per kind."""
