"""Text into values, and what is refused on the way."""

from typing import Any

import pytest

from revisions.errors import MOST_FAULTS, Invalid, Malformed
from revisions.spec import documents
from revisions.spec.manifest import read
from revisions.spec.trigger import TriggerManifest
from tests.world import trigger_document

MERGED = "a0: &a0 {k: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 20)}]}}\n" for n in range(1, 9))
"""Of a few hundred characters, which would be written out to twenty thousand million."""


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: 1\na: 2", "line 2, column 1"),
        ("a: [1", "line 1, column 6"),
        ("a:\n\t- b", "line 2, column 1"),
        ("a: 'x\nb: 1", "line"),
        ("a: !!python/object:os.system x", "line 1, column 4"),
        ("a: *nobody", "line 1, column 4"),
        ("{" * 5000, "line 1, column 101: nested more than 100 deep"),
        ("- " * 100 + "1", "line 1, column 201: nested more than 100 deep"),
        ("- 1\n" * 20_000, "line 20000, column 3: more than 20,000 values in one document; write it as JSON"),
        ('{"a": 1, "b": 2,\n "a": 3}', "line 2, column 2"),
        (MERGED, "line 4, column 5"),
    ],
)
def test_malformed_text_says_where(text: str, where: str) -> None:
    """R-18: what cannot be read at all is named with line and column; duplicate keys are refused."""
    with pytest.raises(Malformed) as refused:
        documents.load(text, "file.yaml")
    assert "file.yaml" in refused.value.detail
    assert where in refused.value.detail


def test_merges_are_written_out() -> None:
    """R-18: a mapping that is merged stands where it is merged; what is written beside it comes first."""
    text = "a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: [*b, {z: 4}]}"
    assert documents.load(text) == [{"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"z": 4, "x": 3, "y": 2}}]


def test_a_text_of_many_documents_is_bounded_for_each() -> None:
    """R-18: a file of many triggers is read, however long; and no more of it than is wanted."""
    found = documents.load("- 1\n- 2\n---\n" * 8_000)
    assert len(found) == 8_000
    assert documents.load("a: 1\n---\n" * 3 + "{", most=2) == [{"a": 1}] * 2


def test_json_is_read_as_json() -> None:
    """R-18: so large documents have a way; numbers know how they were written, and what is after all YAML is read."""
    assert documents.placed(f"\n {[1] * 60_000}") == [(2, [1] * 60_000)]
    (document,) = documents.load('{"version": 1.10, "e": 1e3}')
    assert (document["version"].written, document["e"]) == ("1.10", 1000)
    assert documents.load("{a: 2026-01-01, 'b': [yes]}\n") == [{"a": "2026-01-01", "b": ["yes"]}]
    assert documents.load('{"a": 1}\n---\n{"b": 2}') == [{"a": 1}, {"b": 2}]


def test_instants_stay_as_written() -> None:
    """S-01: no timestamp is resolved: an instant stays the text that was written."""
    assert documents.load("at: 2026-01-01T00:00:00Z\nyes: no") == [{"at": "2026-01-01T00:00:00Z", "yes": "no"}]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('a: {b: "\\0"}', "a.b"),
        ('a: ["\\ud800"]', "a[0]"),
        ("a: .nan", "a"),
        ("a: [{b: -.inf}]", "a[0].b"),
        ("a: 9007199254740992", "a"),
        ("a: -9007199254740992", "a"),
        ("a: {1: x}", "a.1"),
        ("a: !!binary aGk=", "a"),
        ("a: &x [*x]", "input"),
        ('{"\\0": 1}', "input"),
        (
            "a: &a [1,1,1,1,1,1,1,1]\n"
            + "".join(f"{c}: &{c} [*{p}{f', *{p}' * 9}]\n" for p, c in zip("abcdef", "bcdefg", strict=True)),
            "input",
        ),
    ],
)
def test_what_json_cannot_carry_is_refused_by_path(text: str, path: str) -> None:
    """R-18: NUL, lone surrogates, NaN, Infinity, large integers and what is no JSON are refused, naming the path."""
    with pytest.raises(Invalid) as refused:
        documents.check(documents.load(text)[0])
    assert refused.value.errors[0].path == path


def test_the_largest_exact_integer_is_kept() -> None:
    """R-18: up to ±(2^53−1) integers are exact."""
    documents.check([9007199254740991, -9007199254740991, 1e300, True, None, "😀"])


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("a", True),
        ("a-b_c.d", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("Acme", False),
        ("-a", False),
        ("a-", False),
        ("a/b", False),
        ("ä", False),
        ("a\n", False),
    ],
)
def test_names_are_checked_and_never_folded(name: str, valid: bool) -> None:
    """R-01: project, domain and trigger names are 1 to 63 of lower case, digits and - _ . between."""
    document = trigger_document(name)
    if valid:
        assert TriggerManifest.read(document).key.name == name
    else:
        with pytest.raises(Invalid) as refused:
            TriggerManifest.read(document)
        assert refused.value.errors[0].path == "metadata.name"


def test_task_names_may_hold_upper_case() -> None:
    """R-01: a task name may be Flyte's `env.Main`."""
    assert TriggerManifest.read(trigger_document(task="env.Main")).key.task == "env.Main"


@pytest.mark.parametrize("version", ["1.10", "v1+build_2", "A" * 128])
def test_versions(version: str) -> None:
    """R-01: versions are 1 to 128 of letters, digits and . _ + -."""
    assert TriggerManifest.read(trigger_document(task_version=version)).spec.task_version == version


@pytest.mark.parametrize("version", ["", "v 1", "A" * 129, "ü"])
def test_other_versions_are_refused(version: str) -> None:
    """R-01: anything else is refused at its field."""
    with pytest.raises(Invalid) as refused:
        TriggerManifest.read(trigger_document(task_version=version))
    assert refused.value.errors[0].path == "spec.task_version"


def test_a_number_where_a_text_belongs_is_told_to_be_quoted() -> None:
    """R-18: `1.10` unquoted is a number, and is refused with the way out."""
    text = "apiVersion: triggerctl/v1\nkind: Trigger\nmetadata: {project: a, domain: b, task: c, name: d}\n"
    with pytest.raises(Invalid) as refused:
        read(documents.load(text + "spec: {task_version: 1.10, schedule: {every: 1m}}")[0])
    assert "quote it" in refused.value.errors[0].hint


@pytest.mark.parametrize(
    ("spec", "path", "hint"),
    [
        ({"shedule": {"every": "1m"}}, "spec.shedule", "did you mean schedule?"),
        ({"schedule": {"every": "1m", "achor": "x"}}, "spec.schedule.achor", "did you mean anchor?"),
        ({"catchup": {"polcy": "all"}}, "spec.catchup.polcy", "did you mean policy?"),
        ({"catchup": {"policy": "some"}}, "spec.catchup.policy", "one of 'all', 'latest' or 'none'"),
        ({"input_builder": "x"}, "spec.input_builder", "one of 'static'"),
        ({"webhook": {"scheme": "github"}}, "spec.webhook", "leave it out"),
    ],
)
def test_unknown_fields_name_the_nearest_known(spec: dict[str, Any], path: str, hint: str) -> None:
    """R-18: an unknown field is an error that names it and the nearest known one."""
    with pytest.raises(Invalid) as refused:
        TriggerManifest.read(trigger_document(**spec))
    assert (path, hint) in [(fault.path, fault.hint) for fault in refused.value.errors]


def test_all_faults_are_told_at_once() -> None:
    """R-18: nobody mends a manifest one error at a time."""
    with pytest.raises(Invalid) as refused:
        TriggerManifest.read(trigger_document("Bad", task_version=3, overlap="x", retry={"max_attempts": 0}))
    paths = {fault.path for fault in refused.value.errors}
    assert paths == {"metadata.name", "spec.task_version", "spec.overlap", "spec.retry.max_attempts"}


def test_of_many_faults_some_are_told() -> None:
    """R-18: a thousand wrong names cost no more to find words for than anybody reads."""
    wrong = {f"name-{number}": "x" for number in range(1_000)}
    whole = trigger_document()
    inside = whole | {"spec": whole["spec"] | wrong}
    for document in (whole | wrong, inside, trigger_document(input=dict.fromkeys(wrong, 2**60))):
        with pytest.raises(Invalid) as refused:
            TriggerManifest.read(document)
        assert len(refused.value.errors) == MOST_FAULTS
