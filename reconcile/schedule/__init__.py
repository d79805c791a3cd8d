"""Pure functions that compute the fires of a schedule."""
