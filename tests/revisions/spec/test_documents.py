"""Parsing of documents, and the faults of their fields."""

from typing import Any

import pytest

from revisions.errors import MOST_FAULTS, Invalid, Malformed
from revisions.spec import documents
from revisions.spec.manifest import read
from revisions.spec.trigger import TriggerManifest
from tests.world import trigger_document

MERGED = "a0: &a0 {k: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 20)}]}}\n" for n in range(1, 9))
"""Nested merges of a few hundred characters that would expand to 20 thousand million values."""


@pytest.mark.parametrize(
    ("text", "position"),
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
def test_the_error_of_malformed_text_has_its_line_and_column(text: str, position: str) -> None:
    """R-18: also for duplicate keys and for documents that are too large or too deeply nested."""
    with pytest.raises(Malformed) as refused:
        documents.load(text, "file.yaml")
    assert "file.yaml" in refused.value.detail
    assert position in refused.value.detail


def test_merges_are_expanded() -> None:
    """R-18: keys beside a merge take precedence over the merged ones."""
    text = "a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: [*b, {z: 4}]}"
    assert documents.load(text) == [{"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"z": 4, "x": 3, "y": 2}}]


def test_the_size_limit_applies_to_each_document() -> None:
    """R-18: a file may contain any number of documents; parsing stops after `most` of them."""
    loaded = documents.load("- 1\n- 2\n---\n" * 8_000)
    assert len(loaded) == 8_000
    assert documents.load("a: 1\n---\n" * 3 + "{", most=2) == [{"a": 1}] * 2


def test_json_is_parsed_as_json() -> None:
    """R-18: JSON documents may be larger than YAML ones; numbers keep their text, and YAML in flow style is parsed."""
    assert documents.placed(f"\n {[1] * 60_000}") == [(2, [1] * 60_000)]
    (document,) = documents.load('{"version": 1.10, "e": 1e3}')
    assert (document["version"].written, document["e"]) == ("1.10", 1000)
    assert documents.load("{a: 2026-01-01, 'b': [yes]}\n") == [{"a": "2026-01-01", "b": ["yes"]}]
    assert documents.load('{"a": 1}\n---\n{"b": 2}') == [{"a": 1}, {"b": 2}]


def test_instants_stay_strings() -> None:
    """S-01: YAML timestamps are not converted."""
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
def test_values_without_an_exact_json_form_are_refused(text: str, path: str) -> None:
    """R-18: the fault names the path of a NUL, lone surrogate, NaN, Infinity, large integer or other type."""
    with pytest.raises(Invalid) as refused:
        documents.check(documents.load(text)[0])
    assert refused.value.errors[0].path == path


def test_the_largest_exact_integer_is_accepted() -> None:
    """R-18: integers up to ±(2^53−1) are exact in JSON."""
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
def test_names_are_checked_and_keep_their_case(name: str, valid: bool) -> None:
    """R-01: names are 1 to 63 lower-case letters and digits, with - _ . between them."""
    document = trigger_document(name)
    if valid:
        assert TriggerManifest.read(document).key.name == name
    else:
        with pytest.raises(Invalid) as refused:
            TriggerManifest.read(document)
        assert refused.value.errors[0].path == "metadata.name"


def test_task_names_may_have_upper_case_letters() -> None:
    """R-01: such as `env.Main` in Flyte."""
    assert TriggerManifest.read(trigger_document(task="env.Main")).key.task == "env.Main"


@pytest.mark.parametrize("version", ["1.10", "v1+build_2", "A" * 128])
def test_valid_task_versions_are_accepted(version: str) -> None:
    """R-01: versions are 1 to 128 letters, digits and the characters . _ + -."""
    assert TriggerManifest.read(trigger_document(task_version=version)).spec.task_version == version


@pytest.mark.parametrize("version", ["", "v 1", "A" * 129, "ü"])
def test_invalid_task_versions_are_refused(version: str) -> None:
    """R-01: the fault names the field."""
    with pytest.raises(Invalid) as refused:
        TriggerManifest.read(trigger_document(task_version=version))
    assert refused.value.errors[0].path == "spec.task_version"


def test_the_hint_for_an_unquoted_version_says_to_quote_it() -> None:
    """R-18: `1.10` without quotes is a number."""
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
def test_the_hint_for_an_unknown_field_names_the_nearest_known_one(spec: dict[str, Any], path: str, hint: str) -> None:
    """R-18: for an unknown value the hint lists the known values."""
    with pytest.raises(Invalid) as refused:
        TriggerManifest.read(trigger_document(**spec))
    assert (path, hint) in [(fault.path, fault.hint) for fault in refused.value.errors]


def test_one_error_lists_the_faults_of_all_fields() -> None:
    """R-18: metadata and spec together."""
    with pytest.raises(Invalid) as refused:
        TriggerManifest.read(trigger_document("Bad", task_version=3, overlap="x", retry={"max_attempts": 0}))
    paths = {fault.path for fault in refused.value.errors}
    assert paths == {"metadata.name", "spec.task_version", "spec.overlap", "spec.retry.max_attempts"}


def test_the_number_of_reported_faults_is_limited() -> None:
    """R-18: faults beyond `MOST_FAULTS` are not computed."""
    wrong = {f"name-{number}": "x" for number in range(1_000)}
    whole = trigger_document()
    inside = whole | {"spec": whole["spec"] | wrong}
    for document in (whole | wrong, inside, trigger_document(input=dict.fromkeys(wrong, 2**60))):
        with pytest.raises(Invalid) as refused:
            TriggerManifest.read(document)
        assert len(refused.value.errors) == MOST_FAULTS
