"""The command line, one module per resource.

Modules that load slowly (httpx, ruamel.yaml, the application itself) are imported inside the commands that need them,
so that `--help` and shell completion answer quickly.
"""
