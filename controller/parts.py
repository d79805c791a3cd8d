"""Parts that one process can run; a deployment may spread them over several processes.

A module of its own, because the command line names them and must not load the server for that.
"""

PARTS = ("api", "web", "loop", "runner")
