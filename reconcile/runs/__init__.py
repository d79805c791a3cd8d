"""Runs from creation to the end: claim, launch, settle, adopt."""
