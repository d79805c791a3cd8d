"""The loop: reads facts, decides, commits."""
