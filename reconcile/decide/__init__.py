"""Decisions about occurrences, attempts and changes: pure functions, no clock, no database."""
