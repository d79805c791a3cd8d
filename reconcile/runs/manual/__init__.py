"""Runs that people start, repeat, approve or give up."""
