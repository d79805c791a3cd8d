"""Specs of tasks, triggers and calendars: typed and frozen, read once from what was written."""
