"""Code that launchers share: child processes, HTTP exchanges, Kubernetes, attempt folders, checks of blocks."""
