"""Run benchmarks and print their ratios: `python -m benchmarks [name …]`, all of them without a name."""

import sys

from benchmarks import burst, claims, deploys, history, pipelines, planning, replicas, resync, start, verify
from benchmarks.ratio import show

ALL = {
    "deploys": deploys.measure,
    "pipelines": pipelines.measure,
    "history": history.measure,
    "verify": verify.measure,
    "burst": burst.measure,
    "claims": claims.measure,
    "replicas": replicas.measure,
    "resync": resync.measure,
    "start": start.measure,
    "planning": planning.measure,
}

if __name__ == "__main__":  # benchmarks start processes, which import this module again
    chosen = sys.argv[1:] or list(ALL)
    if unknown := set(chosen) - set(ALL):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    show([ratio for name in chosen for ratio in ALL[name]()])
