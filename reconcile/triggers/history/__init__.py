"""Use cases on whole histories: verify, rebuild, export and import."""
