"""Pure decisions: no clock, no database, no randomness."""
