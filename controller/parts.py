"""Parts that one process can run; a deployment may spread them over several processes."""

PARTS = ("api", "web", "loop", "runner")
