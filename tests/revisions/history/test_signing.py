"""Signatures and checkpoints: pure."""

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
    made = checkpoints.document(HEADS, datetime(2026, 3, 2, tzinfo=UTC), "0001", KEY)
    return json.loads(json.dumps(made))


def test_keys_are_texts() -> None:
    """R-10: a key is one line, and what is no key is refused without being shown."""
    assert PrivateKey.parse(KEY.text + "\n") == KEY
    assert PublicKey.parse(str(KEY.public)) == KEY.public
    assert KEY.text not in repr(KEY)
    for wrong in ("", "ed25519:", "ed25519:AAAA", str(KEY.public)[:-1], KEY.text + "A"):
        with pytest.raises(Invalid) as raised:
            PrivateKey.parse(wrong)
        assert not wrong or wrong not in str(raised.value)
    with pytest.raises(Invalid):
        PublicKey.parse(KEY.text)


def test_what_is_signed_can_be_read_in_one_way() -> None:
    """R-10: kind and payload are told apart by their lengths, so that a signature for one is none for another."""
    assert encoding("http://example.com/HelloWorld", "hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"  # the example of DSSE's protocol.md
    )
    signature = KEY.sign("a", "b c")
    assert KEY.public.holds("a", "b c", signature)
    assert not KEY.public.holds("a b", "c", signature)
    assert not KEY.public.holds("a", "b c", "")
    assert not PrivateKey.fresh().public.holds("a", "b c", signature)


def test_a_checkpoint_is_read_as_it_was_written() -> None:
    """R-10: the heads of all triggers under one digest and one signature, the key pinned or not."""
    read = checkpoints.read(checkpoint(), KEY.public)
    assert (read.heads, read.is_pinned) == ({head.trigger_id: head for head in HEADS}, True)
    assert checkpoints.read(checkpoint(), None).is_pinned is False


ALTERED = {
    "a head": lambda made: made["heads"][0].update(hash="f" * 64),
    "a head left out": lambda made: made["heads"].pop(),
    "a head twice": lambda made: made["heads"].append(made["heads"][0]),
    "the time": lambda made: made["checkpoint"].update(created_at="2026-03-03T00:00:00Z"),
    "the digest": lambda made: made["checkpoint"].update(digest=checkpoints.heads_digest(HEADS[:1])),
    "no signature": lambda made: made.pop("signature"),
    "an empty signature": lambda made: made["signature"].update(signature=""),
    "no heads": lambda made: made.pop("heads"),
    "a field more": lambda made: made["checkpoint"].update(more=1),
    "another kind of value": lambda made: made["heads"][0].update(revision=True),
}


@pytest.mark.parametrize("alter", ALTERED.values(), ids=ALTERED)
def test_an_altered_checkpoint_is_refused(alter: Any) -> None:
    """R-10: nothing in it can be changed, and nothing unsigned is taken."""
    made = checkpoint()
    alter(made)
    with pytest.raises(Invalid):
        checkpoints.read(made, None)


def test_another_key_is_refused() -> None:
    """R-10: signed is not enough: by whom is what counts."""
    with pytest.raises(Invalid, match="was expected"):
        checkpoints.read(checkpoint(), PrivateKey.fresh().public)
    wrong: Any
    for wrong in (None, [], "x", 1):
        with pytest.raises(Invalid):
            checkpoints.read(wrong, None)
