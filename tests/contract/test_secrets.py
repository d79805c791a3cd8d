"""One test suite for every discovered source of secrets.

A new file in `reconcile/runs/secrets/` needs an entry here.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from reconcile import plugins
from reconcile.plugins import SecretPlaces, SecretSource, SecretUnreadable
from tests.contract.cluster import CONTEXT, Cluster
from tests.waiting import PATIENCE

VALUE = 'zürich "quoted"\nsecond line'


class SourceBench:
    """One source of secrets and the place where it reads them."""

    def __init__(self, kind: str, folder: Path, cluster: Cluster, patch: pytest.MonkeyPatch) -> None:
        self.kind, self.folder, self.cluster, self.patch = kind, folder, cluster, patch
        self.places = SecretPlaces(folder, "jobs")

    @property
    def source(self) -> SecretSource:
        return plugins.secret_sources()[self.kind]

    def put(self, scope: str | None, name: str, value: str = VALUE) -> None:
        WRITERS[self.kind](self, scope, name, value)

    def read(self, scope: str | None, name: str) -> str | None:
        return self.source.read(self.places, scope, name)

    def place(self, scope: str | None, name: str) -> str:
        return self.source.place(self.places, scope, name)


def put_variable(bench: SourceBench, scope: str | None, name: str, value: str) -> None:
    scoped = {"client-7": "CLIENT_7__", None: ""}[scope]
    bench.patch.setenv(f"TRIGGERCTL_SECRET__{scoped}{name}", value)


def put_file(bench: SourceBench, scope: str | None, name: str, value: str) -> None:
    """Write a secret as the kubelet mounts it: a link into a folder that is replaced as a whole."""
    data = bench.folder / (scope or "") / "..2026_03_02"
    data.mkdir(parents=True, exist_ok=True)
    (data / name).write_text(value)
    (bench.folder / (scope or "") / name).symlink_to(Path("..2026_03_02") / name)


def put_object(bench: SourceBench, scope: str | None, name: str, value: str) -> None:
    bench.cluster.put("jobs/triggerctl" + (f"-{scope}" if scope else ""), name, value)


WRITERS: Mapping[str, Callable[[SourceBench, str | None, str, str], None]] = {
    "environment": put_variable,
    "files": put_file,
    "kubernetes": put_object,
}


def make_pipe(bench: SourceBench) -> None:
    os.mkfifo(bench.folder / "GA_TOKEN")


def make_too_large_file(bench: SourceBench) -> None:
    (bench.folder / "GA_TOKEN").write_bytes(b"secret" * 20_000)


def make_binary_file(bench: SourceBench) -> None:
    (bench.folder / "GA_TOKEN").write_bytes(b"secret\xff")


def forbid_access(bench: SourceBench) -> None:
    bench.put(None, "GA_TOKEN", "secret")
    bench.cluster.is_forbidden = True


def remove_cluster(bench: SourceBench) -> None:
    bench.patch.setenv("KUBECONFIG", str(bench.folder / "none"))


BREAKS: Mapping[str, tuple[str, Callable[[SourceBench], None]]] = {
    "a pipe": ("files", make_pipe),
    "a file too large": ("files", make_too_large_file),
    "a file of bytes": ("files", make_binary_file),
    "an API that refuses": ("kubernetes", forbid_access),
    "no cluster": ("kubernetes", remove_cluster),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def bench_for(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SourceBench]:
    cluster.secrets, cluster.is_forbidden = {}, False
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path)))
    monkeypatch.setattr("reconcile.runs.secrets.kubernetes.SECONDS", PATIENCE)
    return lambda kind: SourceBench(kind, tmp_path, cluster, monkeypatch)


@pytest.fixture(params=plugins.secret_sources())
def bench(request: pytest.FixtureRequest, bench_for: Callable[[str], SourceBench]) -> SourceBench:
    return bench_for(request.param)


def test_every_source_is_tested() -> None:
    assert WRITERS.keys() == plugins.secret_sources().keys()


def test_a_value_is_read_unchanged(bench: SourceBench) -> None:
    """X-12: with and without a scope; a missing name gives None."""
    bench.put(None, "GA_TOKEN")
    bench.put("client-7", "GA_TOKEN", "its own")
    assert (bench.read(None, "GA_TOKEN"), bench.read("client-7", "GA_TOKEN")) == (VALUE, "its own")
    assert bench.read(None, "GA_TOKE") is None


def test_a_scope_contains_only_its_own_secrets(bench: SourceBench) -> None:
    """X-12: a source does not fall back to secrets without a scope; the caller does, so that each source is asked in
    order."""
    bench.put(None, "GA_TOKEN")
    assert bench.read("client-7", "GA_TOKEN") is None
    bench.put("client-7", "OTHER")
    assert bench.read(None, "OTHER") is None
    assert bench.read("client-8", "OTHER") is None


@pytest.mark.parametrize("scope", ["a.b", "a_b", "a..b"])
def test_similar_scope_names_are_kept_apart(bench: SourceBench, scope: str) -> None:
    """X-12: secrets of the scope a-b are not found in another scope."""
    bench.patch.setenv("TRIGGERCTL_SECRET__A_B__GA_TOKEN", VALUE)
    bench.cluster.put("jobs/triggerctl-a-b", "GA_TOKEN", VALUE)
    (bench.folder / "a-b").mkdir()
    (bench.folder / "a-b" / "GA_TOKEN").write_text(VALUE)
    assert bench.read("a-b", "GA_TOKEN") == VALUE
    assert bench.read(scope, "GA_TOKEN") is None


def test_a_source_names_the_place_it_reads(bench: SourceBench) -> None:
    """X-12: for the error of a run with a missing secret."""
    assert "GA_TOKEN" in bench.place(None, "GA_TOKEN")
    assert bench.place("client-7", "GA_TOKEN") != bench.place(None, "GA_TOKEN")


@pytest.mark.parametrize("how", BREAKS)
def test_an_unreadable_secret_is_not_reported_as_missing(bench_for: Callable[[str], SourceBench], how: str) -> None:
    """X-12: it may exist, so it is tried again; the error never reveals a value."""
    kind, make_unreadable = BREAKS[how]
    bench = bench_for(kind)
    make_unreadable(bench)
    with pytest.raises(SecretUnreadable) as raised:
        bench.read(None, "GA_TOKEN")
    assert "secret\xff" not in str(raised.value)
    assert "c2VjcmV0" not in str(raised.value)


def test_the_default_namespace_is_that_of_the_kubeconfig(bench_for: Callable[[str], SourceBench]) -> None:
    """X-12: as for Jobs."""
    bench = bench_for("kubernetes")
    bench.places = SecretPlaces()
    bench.cluster.put(f"{CONTEXT}/triggerctl", "GA_TOKEN", VALUE)
    assert bench.read(None, "GA_TOKEN") == VALUE
    assert bench.place(None, "GA_TOKEN") == f"key GA_TOKEN of {CONTEXT}/triggerctl"


def test_the_folder_of_a_scope_is_not_a_secret(bench_for: Callable[[str], SourceBench]) -> None:
    """X-12: a scope may have the name of a secret."""
    bench = bench_for("files")
    bench.put("token", "GA_TOKEN")
    assert bench.read(None, "token") is None


def test_a_final_line_break_is_not_part_of_the_value(bench_for: Callable[[str], SourceBench]) -> None:
    """X-12: only one is removed; editors add it to a file."""
    bench = bench_for("files")
    bench.put(None, "GA_TOKEN", "value\n\n")
    assert bench.read(None, "GA_TOKEN") == "value\n"
