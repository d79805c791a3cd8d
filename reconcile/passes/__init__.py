"""What the loop's thread does, one pass after another, and what it looks at."""
