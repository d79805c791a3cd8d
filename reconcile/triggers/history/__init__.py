"""Use cases on all histories: verify, rebuild, export and import."""
