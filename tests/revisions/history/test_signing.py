"""Keys, signatures and checkpoints."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from revisions.errors import Invalid
from revisions.history import checkpoints
from revisions.history.chain_breaks import ChainHead
from revisions.history.checkpoints import PrivateKey, PublicKey, encoding
from revisions.ids import TriggerKey

KEY = PrivateKey.fresh()
HEADS = [ChainHead(f"0{n}", TriggerKey("acme", "production", "report", f"t{n}"), n, f"{n}" * 64) for n in (2, 1, 3)]


def checkpoint() -> Any:
    document = checkpoints.document(HEADS, datetime(2026, 3, 2, tzinfo=UTC), "0001", KEY)
    return json.loads(json.dumps(document))


def test_a_key_is_parsed_from_its_text() -> None:
    """R-10: a key is one line of text; an error for an invalid private key does not show the input."""
    assert PrivateKey.parse(KEY.text + "\n") == KEY
    assert PublicKey.parse(str(KEY.public)) == KEY.public
    assert KEY.text not in repr(KEY)
    for wrong in ("", "ed25519:", "ed25519:AAAA", str(KEY.public)[:-1], KEY.text + "A"):
        with pytest.raises(Invalid) as raised:
            PrivateKey.parse(wrong)
        assert not wrong or wrong not in str(raised.value)
    with pytest.raises(Invalid):
        PublicKey.parse(KEY.text)


def test_a_signature_is_valid_for_one_kind_and_payload_only() -> None:
    """R-10: the signed bytes contain the lengths of the kind and the payload."""
    assert encoding("http://example.com/HelloWorld", "hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"  # example in DSSE's protocol.md
    )
    signature = KEY.sign("a", "b c")
    assert KEY.public.holds("a", "b c", signature)
    assert not KEY.public.holds("a b", "c", signature)
    assert not KEY.public.holds("a", "b c", "")
    assert not PrivateKey.fresh().public.holds("a", "b c", signature)


def test_a_checkpoint_is_read_with_and_without_an_expected_key() -> None:
    """R-10: it has the heads of all triggers under one digest and one signature."""
    read = checkpoints.read(checkpoint(), KEY.public)
    assert (read.heads, read.is_pinned) == ({head.trigger_id: head for head in HEADS}, True)
    assert checkpoints.read(checkpoint(), None).is_pinned is False


ALTERED = {
    "a head": lambda document: document["heads"][0].update(hash="f" * 64),
    "a head left out": lambda document: document["heads"].pop(),
    "a repeated head": lambda document: document["heads"].append(document["heads"][0]),
    "the time": lambda document: document["checkpoint"].update(created_at="2026-03-03T00:00:00Z"),
    "the digest": lambda document: document["checkpoint"].update(digest=checkpoints.heads_digest(HEADS[:1])),
    "no signature": lambda document: document.pop("signature"),
    "an empty signature": lambda document: document["signature"].update(signature=""),
    "no heads": lambda document: document.pop("heads"),
    "an additional field": lambda document: document["checkpoint"].update(more=1),
    "a value of another type": lambda document: document["heads"][0].update(revision=True),
}


@pytest.mark.parametrize("alter", ALTERED.values(), ids=ALTERED)
def test_an_altered_checkpoint_is_refused(alter: Any) -> None:
    """R-10: any change, and a missing signature, makes it invalid."""
    document = checkpoint()
    alter(document)
    with pytest.raises(Invalid):
        checkpoints.read(document, None)


def test_a_checkpoint_signed_by_another_key_is_refused() -> None:
    """R-10: the expected key must have signed it; values that are not a checkpoint are refused too."""
    with pytest.raises(Invalid, match="was expected"):
        checkpoints.read(checkpoint(), PrivateKey.fresh().public)
    wrong: Any
    for wrong in (None, [], "x", 1):
        with pytest.raises(Invalid):
            checkpoints.read(wrong, None)
