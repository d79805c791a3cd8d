"""Request bodies: faults of a body against its model."""

from typing import Any

import pytest

from controller.api.bodies import RawBody, RequestBody
from controller.api.callbacks import CompleteIn
from controller.api.fires import BackfillIn, FireManyIn
from controller.api.holds import BlackoutIn
from controller.api.tokens import CreateTokenIn
from controller.api.trigger_changes import BulkIn, RollbackIn
from revisions.errors import Invalid, Malformed

RFC_3339 = "write RFC 3339 with a zone, such as 2026-01-01T08:00:00Z or 2026-01-01T09:00:00+01:00"
FAULTS: dict[str, tuple[type[RequestBody], str, list[tuple[str, str, str]]]] = {
    "unknown field": (
        RollbackIn,
        '{"to": 1, "resaon": "x"}',
        [("resaon", "is not a known field", "did you mean reason?")],
    ),
    "missing field": (RollbackIn, "{}", [("to", "is missing", "send a whole number")]),
    "null is left out": (RollbackIn, '{"to": null}', [("to", "is missing", "send a whole number")]),
    "wrong type": (RollbackIn, '{"to": "1"}', [("to", "must be a whole number, not str", "")]),
    "boolean is no number": (RollbackIn, '{"to": true}', [("to", "must be a whole number, not bool", "")]),
    "unknown word": (
        CompleteIn,
        '{"attempt": 1, "outcome": "done"}',
        [("outcome", "'done' is not known", "one of succeeded, failed")],
    ),
    "unknown role": (
        CreateTokenIn,
        '{"name": "a", "role": "root"}',
        [("role", "'root' is not known", "one of viewer, operator, deployer, admin")],
    ),
    "role of another type": (CreateTokenIn, '{"name": "a", "role": 1}', [("role", "must be a string, not int", "")]),
    "field of a block": (
        BulkIn,
        '{"names": [{"triger": "a/b/c/d", "trigger": "a/b/c/d", "revision": 1}]}',
        [("names[0].triger", "is not a known field", "did you mean trigger?")],
    ),
    "no block": (BulkIn, '{"names": [1]}', [("names[0]", "must be an object, not int", "")]),
    "name of a trigger": (
        BulkIn,
        '{"names": [{"trigger": "A/b/c/d", "revision": 1}]}',
        [
            (
                "names[0].trigger.project",
                "'A' is not a valid project",
                "1 to 63 of lower-case letters, digits and - _ . between",
            )
        ],
    ),
    "all at once": (
        BackfillIn,
        '{"from": "soon", "to": 1, "forse": true}',
        [
            ("forse", "is not a known field", "did you mean force?"),
            ("from", "'soon' is not an instant", RFC_3339),
            ("to", "must be a string, not int", ""),
        ],
    ),
    "list of texts": (FireManyIn, '{"names": "a/b/c/d"}', [("names", "must be a list, not str", "")]),
    "object": (FireManyIn, '{"tag": "x", "input": []}', [("input", "must be an object, not list", "")]),
    "project": (
        BlackoutIn,
        '{"project": "A", "until": "2027-01-01T00:00:00Z", "reason": "r"}',
        [("project", "'A' is not a valid project", "1 to 63 of lower-case letters, digits and - _ . between")],
    ),
}


@pytest.mark.parametrize(("model", "text", "faults"), FAULTS.values(), ids=FAULTS)
def test_a_wrong_body_is_refused_by_field(
    model: type[RequestBody], text: str, faults: list[tuple[str, str, str]]
) -> None:
    """R-18: all faults at once, each with path, message and hint; unknown fields first."""
    with pytest.raises(Invalid) as refused:
        RawBody(text.encode(), "application/json").validated(model)
    assert [(fault.path, fault.message, fault.hint) for fault in refused.value.errors] == faults


@pytest.mark.parametrize("content", [b"", b"{}", b"reason: null"])
def test_an_empty_body_is_an_empty_object(content: bytes) -> None:
    """U-01: in JSON and in YAML."""
    body: Any = RawBody(content, "application/yaml").validated(BulkIn)
    assert (body.names, body.tag, body.reason) == (None, None, None)


def test_a_body_that_is_no_object_is_refused() -> None:
    """R-18: a list, and two documents."""
    with pytest.raises(Invalid, match="must be an object, not list"):
        RawBody(b"[]", "application/json").validated(BulkIn)
    with pytest.raises(Malformed, match="more than one document"):
        RawBody(b"a: 1\n---\nb: 2\n", "application/yaml").validated(BulkIn)
