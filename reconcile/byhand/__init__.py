"""What people ask for by hand: runs, approvals, state, the end of a backlog."""
