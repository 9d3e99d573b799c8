"""Signatures of requests and of receipts: version 2 of the wire."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from .keys import Key, decoy

SIGNATURES_MAX = 8
_PREFIX = "v2;kid="
_DECOYS = {algorithm: decoy(algorithm) for algorithm in ("HMAC-SHA256", "HMAC-SHA512")}


def encode(pieces: Sequence[Union[str, bytes]]) -> bytes:
    """The number of pieces, then each piece with its length before it.

    >>> encode(["a"]).hex()
    '0100000000000000010000000000000061'
    """
    encoded = bytearray(struct.pack("<Q", len(pieces)))
    for piece in pieces:
        as_bytes = piece.encode() if isinstance(piece, str) else piece
        encoded += struct.pack("<Q", len(as_bytes)) + as_bytes
    return bytes(encoded)


@dataclass(frozen=True)
class Head:
    """What a signature of a request covers. Numbers are the text of their headers; times are microseconds."""

    source: str
    destination: str
    method: str
    path: str
    message_id: str
    enqueued_at: str
    due_at: str
    attempt: str
    timestamp: str
    content_type: str
    digest: bytes

    def sign(self, keys: Iterable[Key]) -> str:
        """The value of `rf-signature`, one signature for each key."""
        return _signed(keys, lambda key: key.sign_request(self._encoded(key.kid)))

    def is_signed(self, header: str, keys: Iterable[Key]) -> bool:
        """Whether one of the first eight signatures is by one of the keys."""
        return _verified(header, keys, lambda key, kid: key.sign_request(self._encoded(kid)))

    def headers(self, keys: Iterable[Key]) -> Dict[str, str]:
        """The headers of the signed request."""
        due = {"rf-due-at": self.due_at} if self.due_at else {}
        return {
            "content-type": self.content_type,
            "rf-version": "2",
            "rf-source": self.source,
            "rf-destination": self.destination,
            "rf-message-id": self.message_id,
            "rf-enqueued-at": self.enqueued_at,
            **due,
            "rf-attempt": self.attempt,
            "rf-timestamp": self.timestamp,
            "rf-content-sha256": self.digest.hex(),
            "rf-signature": self.sign(keys),
        }

    def _encoded(self, kid: str) -> bytes:
        return encode([
            "rf-sig-v2", "req", kid, self.source, self.destination, self.method, self.path, self.message_id,
            self.enqueued_at, self.due_at, self.attempt, self.timestamp, self.content_type, self.digest,
        ])  # fmt: skip


@dataclass(frozen=True)
class ReceiptHead:
    """What a receipt covers: which request it answers, and how."""

    destination: str
    message_id: str
    timestamp: str
    status: int
    digest: bytes
    retry_after: Optional[str] = None
    retention: Optional[str] = None

    @classmethod
    def of(
        cls, destination: str, message_id: str, timestamp: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> ReceiptHead:
        """That of an answer with these headers (in lower case) and this body."""
        beside = headers.get("retry-after"), headers.get("rf-inbox-retention")
        return cls(destination, message_id, timestamp, status, hashlib.sha256(body).digest(), *beside)

    def sign(self, keys: Iterable[Key]) -> str:
        """The value of `rf-ack`, one signature for each key."""
        return _signed(keys, lambda key: key.sign_receipt(self._encoded(key.kid)))

    def is_signed(self, header: str, keys: Iterable[Key]) -> bool:
        """Whether one of the first eight signatures is by one of the keys."""
        return _verified(header, keys, lambda key, kid: key.sign_receipt(self._encoded(kid)))

    def _encoded(self, kid: str) -> bytes:
        pieces: List[Union[str, bytes]] = ["rf-ack-v2", "ack", kid, self.destination, self.message_id, self.timestamp]
        pieces += [str(self.status), self.digest]
        if self.retry_after is not None or self.retention is not None:
            pieces += [self.retry_after or "", self.retention or ""]
        return encode(pieces)


def _signed(keys: Iterable[Key], mac: Callable[[Key], bytes]) -> str:
    return ",".join(_text(key.kid, mac(key)) for key in keys)


def _text(kid: str, mac: bytes) -> str:
    return f"{_PREFIX}{kid};{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def _verified(header: str, keys: Iterable[Key], mac: Callable[[Key, str], bytes]) -> bool:
    """Whether one signature is right. To compare the text is as strict as to decode it: each MAC has one text only."""
    known = {key.kid: key for key in keys}
    is_verified = False
    for item in header.split(",")[:SIGNATURES_MAX]:
        item = item.strip()
        kid, found = _kid_of(item)
        if not found:
            continue
        key = known.get(kid)
        tried = key or _DECOYS["HMAC-SHA512" if len(item) - len(kid) > 90 else "HMAC-SHA256"]
        is_same = hmac.compare_digest(item.encode(), _text(kid, mac(tried, kid)).encode())
        is_verified |= is_same and key is not None
    return is_verified


def _kid_of(item: str) -> Tuple[str, bool]:
    kid, semicolon, _ = item[len(_PREFIX) :].partition(";")
    return kid, bool(semicolon) and item.startswith(_PREFIX)
