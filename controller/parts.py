"""What one process can run, and can leave to others."""

PARTS = ("api", "web", "loop", "runner")
