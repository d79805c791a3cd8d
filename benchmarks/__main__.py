"""`python -m benchmarks [name …]`: runs the benchmarks and prints their ratios."""

import sys

from benchmarks import burst, deploys, history, verify
from benchmarks.ratio import show

ALL = {"deploys": deploys.measure, "burst": burst.measure, "verify": verify.measure, "history": history.measure}

chosen = sys.argv[1:] or list(ALL)
if unknown := set(chosen) - set(ALL):
    sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
show([ratio for name in chosen for ratio in ALL[name]()])
