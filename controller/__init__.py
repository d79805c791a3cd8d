"""The process and its surfaces: command line, HTTP, web page."""
