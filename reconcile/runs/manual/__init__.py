"""What people do by hand: fire, backfill, retry, approve, drop a backlog, set a state."""
