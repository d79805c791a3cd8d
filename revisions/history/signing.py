"""Ed25519 signatures (cryptography) over unambiguous bytes.

The pre-authentication encoding of DSSE is signed: the lengths of the parts come first, so that a signature for one kind
of payload is never valid for another. There is no unsigned form.
"""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from revisions.errors import Invalid

_PRIVATE, _PUBLIC = "ed25519-private:", "ed25519:"
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64


def encoding(kind: str, payload: str) -> bytes:
    """Return the bytes to sign for a payload of a kind (DSSE's PAE)."""
    parts = (kind.encode(), payload.encode())
    return b"DSSEv1" + b"".join(b" %d %s" % (len(part), part) for part in parts)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Key that signatures are checked against; its text is one line, for settings."""

    raw: bytes

    @classmethod
    def parse(cls, text: str, path: str = "public_key") -> Self:
        """Read `ed25519:…`. Raises Invalid."""
        raw = _decoded(text, _PUBLIC)
        if raw is None or len(raw) != _KEY_BYTES:
            raise Invalid.at(path, "is not a public key", f"write {_PUBLIC} and what `checkpoint --new-key` printed")
        return cls(raw)

    def holds(self, kind: str, payload: str, signature: str) -> bool:
        """Return True for this key's signature over this payload and kind."""
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
    """Key that signs; only `text` shows it."""

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
