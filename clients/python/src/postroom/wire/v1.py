"""Version 1 of the signature, for peers that know nothing else. It proves less: see the guide of the wire."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Iterable

from .keys import Key


def sign_v1(key: Key, message_id: str, source: str, endpoint: str, payload: bytes) -> str:
    """The value of `rf-hmac` in the envelope's headers. `payload` are the bytes in the envelope."""
    signed = message_id + source + endpoint + hashlib.sha256(payload).hexdigest()
    return base64.b64encode(key.sign_v1(signed.encode())).decode()


def is_signed_v1(
    signature: str, keys: Iterable[Key], message_id: str, source: str, endpoint: str, payload: bytes
) -> bool:
    """Whether one of the keys made the signature."""
    is_verified = False
    for key in keys:
        expected = sign_v1(key, message_id, source, endpoint, payload)
        is_verified |= hmac.compare_digest(signature.encode(errors="replace"), expected.encode())
    return is_verified
