"""Signatures of Standard Webhooks, with which a node signs what it posts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from typing import Dict, Iterable, List, Mapping, Optional, Union

PREFIX = "whsec_"
# Whoever can guess the secret can post messages, so a receiver takes no shorter one than a node does.
BYTES_MIN = 24
TOLERANCE = 300
_LISTED_MAX = 16


def new_secret() -> str:
    """A new secret, for the node's `secret = { file = … }` and for the receiver.

    >>> new_secret().startswith("whsec_")
    True
    """
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


class Keys:
    """The keys of one secret or of several, while one is replaced. They are never printed."""

    def __init__(self, given: Union[str, Iterable[str]]) -> None:
        self._keys = [_key(each) for each in ([given] if isinstance(given, str) else given)]
        if not self._keys:
            raise ValueError("there is no secret; give at least one")

    def __repr__(self) -> str:
        return f"Keys({len(self._keys)})"

    def sign(self, message_id: str, at: int, body: bytes) -> Dict[str, str]:
        """The headers for a body, signed at a time in seconds. For tests, and for programs that post to a receiver."""
        made = [f"v1,{each}" for each in self._made(message_id, str(at), body)]
        return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": " ".join(made)}

    def verify(self, headers: Mapping[str, str], body: bytes, now: Optional[float] = None) -> Optional[str]:
        """The signed id, if one of the keys signed this body with it within five minutes of now."""
        named, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        # A full stop would make one signature fit several combinations of id, time and body.
        if not named or "." in named or not named.isascii() or not (at.isascii() and at.isdigit() and len(at) < 16):
            return None
        expected = [each.encode() for each in self._made(named, at, body)]
        is_signed = False
        for item in headers.get("webhook-signature", "").split(" ")[:_LISTED_MAX]:
            version, _, coded = item.partition(",")
            for each in expected:
                is_same = hmac.compare_digest(each, coded.encode(errors="replace"))
                is_signed |= is_same and version == "v1"
        is_timely = abs((time.time() if now is None else now) - int(at)) <= TOLERANCE
        return named if is_signed and is_timely else None

    def _made(self, message_id: str, at: str, body: bytes) -> List[str]:
        signed = f"{message_id}.{at}.".encode() + body
        macs = [hmac.new(key, signed, hashlib.sha256).digest() for key in self._keys]
        return [base64.b64encode(mac).decode() for mac in macs]


def _key(secret: str) -> bytes:
    wanted = f"use whsec_ and base64 of at least {BYTES_MIN} bytes"
    if not isinstance(secret, str):
        raise ValueError(f"a secret is no text; {wanted}")
    coded = secret.strip()
    coded = coded[len(PREFIX) :] if coded.startswith(PREFIX) else coded
    try:
        key = base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True)
    except (binascii.Error, ValueError):
        # The decoder's own error is not used: it may quote the secret.
        raise ValueError(f"a secret is no base64; {wanted}") from None
    if len(key) < BYTES_MIN:
        raise ValueError(f"a secret has {len(key)} bytes; {wanted}")
    return key
