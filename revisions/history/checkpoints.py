"""Checkpoints: the newest revision of every trigger, under one digest and one Ed25519 signature (R-10).

A hash chain does not detect revisions removed from its end, a trigger removed with all its revisions, or a history
rewritten from its first revision. A checkpoint that is kept outside the database does: it holds the newest revision
number and hash of every trigger.

The signature covers the pre-authentication encoding of DSSE. It contains the length of each part, so that a signature
for one kind of payload is never valid for another. A checkpoint without a signature is refused.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from revisions.errors import Invalid
from revisions.history.chain import canonical, digest
from revisions.history.chain_breaks import ChainHead
from revisions.ids import TriggerKey, utc_text

_PRIVATE, _PUBLIC = "ed25519-private:", "ed25519:"
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64


def encoding(kind: str, payload: str) -> bytes:
    """Return the bytes to sign for a payload of a kind (DSSE's PAE)."""
    parts = (kind.encode(), payload.encode())
    return b"DSSEv1" + b"".join(b" %d %s" % (len(part), part) for part in parts)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Public key that verifies signatures; `str` gives the one line that settings hold."""

    raw: bytes

    @classmethod
    def parse(cls, text: str, path: str = "public_key") -> Self:
        """Read `ed25519:…`. Raises Invalid."""
        raw = _decoded(text, _PUBLIC)
        if raw is None or len(raw) != _KEY_BYTES:
            raise Invalid.at(path, "is not a public key", f"write {_PUBLIC} and what `checkpoint --new-key` printed")
        return cls(raw)

    def holds(self, kind: str, payload: str, signature: str) -> bool:
        """Return True if the signature over the payload and its kind was made with this key."""
        raw = _decoded(signature, "")
        if raw is None or len(raw) != _SIGNATURE_BYTES:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(raw, encoding(kind, payload))
        except InvalidSignature:
            return False
        return True

    def __str__(self) -> str:
        return _PUBLIC + base64.b64encode(self.raw).decode()


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """Private key that signs; its `repr` does not show it."""

    raw: bytes = field(repr=False)

    @classmethod
    def fresh(cls) -> Self:
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def parse(cls, text: str, path: str = "private_key") -> Self:
        """Read a key's `text`. Raises Invalid, which does not show the input."""
        raw = _decoded(text, _PRIVATE)
        if raw is None or len(raw) != _KEY_BYTES:
            raise Invalid.at(path, "holds no private key", "make one with `triggerctl checkpoint --new-key FILE`")
        return cls(raw)

    @property
    def text(self) -> str:
        """The key as one line."""
        return _PRIVATE + base64.b64encode(self.raw).decode()

    @property
    def public(self) -> PublicKey:
        return PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, kind: str, payload: str) -> str:
        """Return the signature over a payload of a kind, in base64."""
        return base64.b64encode(self._key.sign(encoding(kind, payload))).decode()

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.raw)


def _decoded(text: str, prefix: str) -> bytes | None:
    text = text.strip()
    if not text.startswith(prefix):
        return None
    try:
        return base64.b64decode(text.removeprefix(prefix), validate=True)
    except (binascii.Error, ValueError):
        return None


KIND = "application/vnd.triggerctl.checkpoint+json"
FORMAT = 1
_STATEMENT = {"format": int, "created_at": str, "schema": str, "triggers": int, "digest": str}
_HEAD = {"trigger_id": str, "trigger": str, "revision": int, "hash": str}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Verified checkpoint. `is_pinned`: the caller gave the expected key, it was not taken from the checkpoint."""

    created_at: str
    heads: Mapping[str, ChainHead]
    public_key: PublicKey
    is_pinned: bool


def statement(heads: Sequence[ChainHead], created_at: datetime, schema: str) -> dict[str, Any]:
    """Return the statement to sign."""
    return {
        "format": FORMAT,
        "created_at": utc_text(created_at),
        "schema": schema,
        "triggers": len(heads),
        "digest": heads_digest(heads),
    }


def heads_digest(heads: Iterable[ChainHead]) -> str:
    """Return the SHA-256 of all heads, in order of trigger id."""
    ordered = sorted(heads)
    return digest(canonical([[head.trigger_id, *head.key, head.revision, head.hash] for head in ordered]))


def signed(statement: Mapping[str, Any], key: PrivateKey) -> dict[str, Any]:
    """Return a statement with its signature."""
    signature = {"public_key": str(key.public), "signature": key.sign(KIND, canonical(statement))}
    return {"checkpoint": dict(statement), "signature": signature}


def document(heads: Sequence[ChainHead], created_at: datetime, schema: str, key: PrivateKey) -> dict[str, Any]:
    """Return a checkpoint: the statement, its signature, and the heads, by which `verify` names missing histories."""
    listed = [
        {"trigger_id": head.trigger_id, "trigger": str(head.key), "revision": head.revision, "hash": head.hash}
        for head in sorted(heads)
    ]
    return signed(statement(heads, created_at, schema), key) | {"heads": listed}


def check_signature(document: Any, expected: PublicKey | None) -> PublicKey:
    """Return the key that signed a statement. Raises Invalid for a wrong signature or another key than expected."""
    statement = _part(document, "checkpoint", _STATEMENT)
    signature = _part(document, "signature", dict.fromkeys(_SIGNATURE, str))
    if statement["format"] != FORMAT:
        raise _refused("checkpoint.format", f"is {statement['format']}, this release reads {FORMAT}")
    key = PublicKey.parse(signature["public_key"], "checkpoint.signature.public_key")
    if expected is not None and key != expected:
        path, message = "checkpoint.signature.public_key", f"is {key}, and {expected} was expected"
        raise Invalid.at(path, message, "one that was signed before the key was changed takes the old --public-key")
    if not key.holds(KIND, canonical(statement), signature["signature"]):
        raise _refused("checkpoint.signature", "does not hold: the checkpoint was altered")
    return key


def read(document: Any, expected: PublicKey | None) -> Checkpoint:
    """Return a checkpoint after checking its signature, and its key if one is expected.

    Raises Invalid for a document that is not a checkpoint, was altered, or was signed by another key.
    """
    key = check_signature(document, expected)
    listed = document.get("heads")
    if not isinstance(listed, list):
        raise _refused("checkpoint.heads", "are missing")
    heads = {}
    for number, item in enumerate(listed):
        head = _part({"head": item}, "head", _HEAD, f"checkpoint.heads[{number}]")
        heads[head["trigger_id"]] = ChainHead(
            head["trigger_id"], TriggerKey.parse(head["trigger"]), head["revision"], head["hash"]
        )
    if len(heads) != len(listed) or heads_digest(heads.values()) != document["checkpoint"]["digest"]:
        raise _refused("checkpoint.heads", "are not those that were signed")
    return Checkpoint(document["checkpoint"]["created_at"], heads, key, expected is not None)


_SIGNATURE = ("public_key", "signature")


def _part(document: Any, name: str, kinds: Mapping[str, type], path: str | None = None) -> dict[str, Any]:
    """Return a part with exactly these fields and types. Raises Invalid at `path`, by default the name."""
    part = document.get(name) if isinstance(document, dict) else None
    if not isinstance(part, dict) or part.keys() != kinds.keys():
        raise _refused(path or name, f"must have {', '.join(kinds)}, and nothing else")
    for member, kind in kinds.items():
        if type(part[member]) is not kind:
            raise _refused(f"{path or name}.{member}", "is of another type")
    return part


def _refused(path: str, message: str) -> Invalid:
    return Invalid.at(path, message, "take a file that `triggerctl checkpoint` wrote, as it wrote it")
