"""Attempts at runs: claimed, started, found again, watched, ended."""
