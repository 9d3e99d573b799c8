"""Secrets that two services share, and keys made from them. They are never printed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from datetime import datetime, timezone
from typing import Optional, Union

SECRET_MIN = 32
SCANNABLE = "rfsec_"
PLAIN = "base64:"
ALGORITHMS = {"HMAC-SHA256": hashlib.sha256, "HMAC-SHA512": hashlib.sha512}
_KID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def new_secret() -> str:
    """A new secret as text, for both services.

    >>> Key("2026-11", new_secret())
    Key('2026-11')
    """
    return SCANNABLE + base64.urlsafe_b64encode(secrets.token_bytes(SECRET_MIN)).rstrip(b"=").decode()


def parse_secret(text: Union[str, bytes]) -> bytes:
    """The bytes of a secret: `rfsec_` and URL-safe base64, `base64:` and base64, or any text of at least 32 bytes."""
    if isinstance(text, bytes):
        secret = text
    elif text.startswith(SCANNABLE):
        coded = text[len(SCANNABLE) :].rstrip("=")
        secret = _decoded(coded + "=" * (-len(coded) % 4), b"-_")
    elif text.startswith(PLAIN):
        secret = _decoded(text[len(PLAIN) :], b"+/")
    else:
        secret = text.encode()
    if len(secret) < SECRET_MIN:
        raise ValueError(f"the secret has {len(secret)} bytes; use at least {SECRET_MIN}")
    return secret


def _decoded(coded: str, signs: bytes) -> bytes:
    try:
        return base64.b64decode(coded.encode("ascii"), altchars=signs, validate=True)
    except (binascii.Error, ValueError):
        # The decoder's own error is not used: it may quote the secret.
        raise ValueError("the secret is no base64") from None


class Key:
    """A secret with an id (the `kid`), which is public, and an algorithm, which both services agree on.

    Outside of `begins` and `ends` it neither signs nor verifies. White space at both ends of a secret that you read
    from a file or a variable is not part of it: strip it.
    """

    def __init__(
        self,
        kid: str,
        secret: Union[str, bytes],
        *,
        algorithm: str = "HMAC-SHA256",
        begins: Optional[datetime] = None,
        ends: Optional[datetime] = None,
    ) -> None:
        if not _KID.fullmatch(kid):
            raise ValueError("the id of the key is not valid; use 1 to 64 letters, digits, '.', '_' and '-'")
        if algorithm not in ALGORITHMS:
            raise ValueError(f"the algorithm is unknown; use {' or '.join(ALGORITHMS)}")
        if any(at is not None and at.tzinfo is None for at in (begins, ends)):
            raise ValueError("begins and ends need a time zone")
        self.kid, self.algorithm = kid, algorithm
        self._begins, self._ends = begins, ends
        self._secret = parse_secret(secret)
        self._request = self.mac(self._secret, b"postroom v2 request")
        self._receipt = self.mac(self._secret, b"postroom v2 receipt")

    def __repr__(self) -> str:
        return f"Key({self.kid!r})"

    def is_valid(self, now: Optional[datetime] = None) -> bool:
        """Whether it may be used at this time."""
        now = now or datetime.now(timezone.utc)
        return (self._begins is None or self._begins <= now) and (self._ends is None or now < self._ends)

    def mac(self, key: bytes, data: bytes) -> bytes:
        """The MAC of some bytes, by the algorithm of this key."""
        return hmac.new(key, data, ALGORITHMS[self.algorithm]).digest()

    def sign_request(self, data: bytes) -> bytes:
        """The MAC of a request."""
        return self.mac(self._request, data)

    def sign_receipt(self, data: bytes) -> bytes:
        """The MAC of a receipt."""
        return self.mac(self._receipt, data)

    def sign_v1(self, data: bytes) -> bytes:
        """The MAC of version 1."""
        return self.mac(self._secret, data)


def decoy(algorithm: str) -> Key:
    """A key that nobody has. A signature with an unknown key is checked against it, and takes as long as any other."""
    return Key("decoy", secrets.token_bytes(SECRET_MIN), algorithm=algorithm)
