"""External systems that launchers use, one per kind and test module."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contract.cluster import Cluster
from tests.contract.flyte import Flyte
from tests.contract.service import Service
from tests.contract.tasks import TASKS
from tests.contract.workers import Workers
from tests.ports import reserved


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Double of a cluster, or the real cluster of TEST_KUBECONFIG for `tests/kubernetes/real`."""
    if real := os.environ.get("TEST_KUBECONFIG"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", real)
            yield SimpleNamespace(url="")
        return
    with Cluster() as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path_factory.mktemp("cluster"))))
        yield cluster


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed (.ci/run installs it)")
    with ExitStack() as stack:
        port = stack.enter_context(reserved())
        workers = stack.enter_context(Workers(tmp_path_factory.mktemp("workers"), port))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, address in workers.environment.items():
            patch.setenv(name, address)
        yield workers


@pytest.fixture(scope="module")
def flyte() -> Iterator[Flyte]:
    with Flyte(TASKS) as flyte:
        yield flyte
