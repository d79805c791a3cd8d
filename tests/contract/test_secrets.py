"""One suite for every source of secrets that is discovered: a new file in `reconcile/secrets/` needs an entry here."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from reconcile import plugins
from reconcile.protocols import SecretPlaces, SecretSource, SecretUnreadable
from tests.contract.cluster import CONTEXT, Cluster
from tests.waiting import PATIENCE

VALUE = 'zürich "quoted"\nsecond line'


class Home:
    """One source with somewhere to put what it shall find."""

    def __init__(self, kind: str, folder: Path, cluster: Cluster, patch: pytest.MonkeyPatch) -> None:
        self.kind, self.folder, self.cluster, self.patch = kind, folder, cluster, patch
        self.places = SecretPlaces(folder, "jobs")

    @property
    def source(self) -> SecretSource:
        return plugins.secret_sources()[self.kind]

    def put(self, scope: str | None, name: str, value: str = VALUE) -> None:
        PUTS[self.kind](self, scope, name, value)

    def read(self, scope: str | None, name: str) -> str | None:
        return self.source.read(self.places, scope, name)

    def place(self, scope: str | None, name: str) -> str:
        return self.source.place(self.places, scope, name)


def put_variable(home: Home, scope: str | None, name: str, value: str) -> None:
    scoped = {"client-7": "CLIENT_7__", None: ""}[scope]
    home.patch.setenv(f"TRIGGERCTL_SECRET__{scoped}{name}", value)


def put_file(home: Home, scope: str | None, name: str, value: str) -> None:
    """As the kubelet mounts them: what is read is a link to what lies in a folder that is replaced as a whole."""
    data = home.folder / (scope or "") / "..2026_03_02"
    data.mkdir(parents=True, exist_ok=True)
    (data / name).write_text(value)
    (home.folder / (scope or "") / name).symlink_to(Path("..2026_03_02") / name)


def put_object(home: Home, scope: str | None, name: str, value: str) -> None:
    home.cluster.put("jobs/triggerctl" + (f"-{scope}" if scope else ""), name, value)


PUTS: Mapping[str, Callable[[Home, str | None, str, str], None]] = {
    "environment": put_variable,
    "files": put_file,
    "kubernetes": put_object,
}


def break_file(home: Home) -> None:
    os.mkfifo(home.folder / "GA_TOKEN")


def fill_file(home: Home) -> None:
    (home.folder / "GA_TOKEN").write_bytes(b"secret" * 20_000)


def garble_file(home: Home) -> None:
    (home.folder / "GA_TOKEN").write_bytes(b"secret\xff")


def forbid(home: Home) -> None:
    home.put(None, "GA_TOKEN", "secret")
    home.cluster.is_forbidden = True


def shut_down(home: Home) -> None:
    home.patch.setenv("KUBECONFIG", str(home.folder / "none"))


BREAKS: Mapping[str, tuple[str, Callable[[Home], None]]] = {
    "a pipe": ("files", break_file),
    "a file too large": ("files", fill_file),
    "a file of bytes": ("files", garble_file),
    "an API that refuses": ("kubernetes", forbid),
    "no cluster": ("kubernetes", shut_down),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def made(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Home]:
    cluster.secrets, cluster.is_forbidden = {}, False
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path)))
    monkeypatch.setattr("reconcile.runs.secrets.kubernetes.SECONDS", PATIENCE)
    return lambda kind: Home(kind, tmp_path, cluster, monkeypatch)


@pytest.fixture(params=plugins.secret_sources())
def home(request: pytest.FixtureRequest, made: Callable[[str], Home]) -> Home:
    return made(request.param)


def test_every_source_has_an_entry_here() -> None:
    assert PUTS.keys() == plugins.secret_sources().keys()


def test_a_value_is_read_as_it_was_put(home: Home) -> None:
    """X-12: without a scope and within one; what is not there is none."""
    home.put(None, "GA_TOKEN")
    home.put("client-7", "GA_TOKEN", "its own")
    assert (home.read(None, "GA_TOKEN"), home.read("client-7", "GA_TOKEN")) == (VALUE, "its own")
    assert home.read(None, "GA_TOKE") is None


def test_a_scope_finds_its_own_alone(home: Home) -> None:
    """X-12: it is the vault that goes on without the scope, so that each source is asked in order."""
    home.put(None, "GA_TOKEN")
    assert home.read("client-7", "GA_TOKEN") is None
    home.put("client-7", "OTHER")
    assert home.read(None, "OTHER") is None
    assert home.read("client-8", "OTHER") is None


@pytest.mark.parametrize("scope", ["a.b", "a_b", "a..b"])
def test_scopes_that_look_alike_do_not_meet(home: Home, scope: str) -> None:
    """X-12: what lies in the scope a-b is not found in another."""
    home.patch.setenv("TRIGGERCTL_SECRET__A_B__GA_TOKEN", VALUE)
    home.cluster.put("jobs/triggerctl-a-b", "GA_TOKEN", VALUE)
    (home.folder / "a-b").mkdir()
    (home.folder / "a-b" / "GA_TOKEN").write_text(VALUE)
    assert home.read("a-b", "GA_TOKEN") == VALUE
    assert home.read(scope, "GA_TOKEN") is None


def test_it_says_where_it_looks(home: Home) -> None:
    """X-12: in words that tell the one from the other, for the error of a run that misses it."""
    assert "GA_TOKEN" in home.place(None, "GA_TOKEN")
    assert home.place("client-7", "GA_TOKEN") != home.place(None, "GA_TOKEN")


@pytest.mark.parametrize("how", BREAKS)
def test_what_cannot_be_read_is_not_called_missing(made: Callable[[str], Home], how: str) -> None:
    """X-12: it may be there, so it is tried again; the error never tells a value."""
    kind, spoil = BREAKS[how]
    home = made(kind)
    spoil(home)
    with pytest.raises(SecretUnreadable) as raised:
        home.read(None, "GA_TOKEN")
    assert "secret\xff" not in str(raised.value)
    assert "c2VjcmV0" not in str(raised.value)


def test_without_a_namespace_it_is_the_contexts(made: Callable[[str], Home]) -> None:
    """X-12: where Jobs that name none go, too."""
    home = made("kubernetes")
    home.places = SecretPlaces()
    home.cluster.put(f"{CONTEXT}/triggerctl", "GA_TOKEN", VALUE)
    assert home.read(None, "GA_TOKEN") == VALUE
    assert home.place(None, "GA_TOKEN") == f"key GA_TOKEN of {CONTEXT}/triggerctl"


def test_a_folder_of_a_scope_is_no_value(made: Callable[[str], Home]) -> None:
    """X-12: a scope may be called as a secret is."""
    home = made("files")
    home.put("token", "GA_TOKEN")
    assert home.read(None, "token") is None


def test_the_line_break_of_an_editor_is_not_part_of_the_value(made: Callable[[str], Home]) -> None:
    """X-12: one, at the end of a file; what else is there is meant."""
    home = made("files")
    home.put(None, "GA_TOKEN", "value\n\n")
    assert home.read(None, "GA_TOKEN") == "value\n"
