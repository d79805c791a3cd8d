"""Work outside the controller, as launchers need it: child processes, requests, errands, jobs, and how they ended."""
