"""Ids of messages and of rows."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Optional, Union
from uuid import UUID

from .errors import InvalidMessage

NIL = UUID(int=0)


def new_id() -> UUID:
    """A new message id. It sorts by the time it was made (UUID version 7).

    >>> new_id().version
    7
    """
    millis = time.time_ns() // 1_000_000
    number = (millis & (1 << 48) - 1) << 80 | secrets.randbits(80)
    number = number & ~(0xF << 76) | 7 << 76
    return UUID(int=number & ~(0b11 << 62) | 0b10 << 62)


def parse_id(given: Union[UUID, str], field: str = "message_id") -> UUID:
    """The id of a message: a UUID that is not all zeros.

    >>> parse_id("0190B3A6-6A1C-7C4E-9D2F-3B1A5C7E9F01")
    UUID('0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01')
    """
    try:
        made = given if isinstance(given, UUID) else UUID(given)
    except (ValueError, AttributeError, TypeError):
        raise InvalidMessage(field, "is no UUID", "write it like 0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01") from None
    if made == NIL:
        raise InvalidMessage(field, "is all zeros", "use another UUID, or leave it out for a new one")
    return made


def row_id(message_id: UUID, destination: Optional[str]) -> UUID:
    """The id of the outbox row of a message: its own, or for a destination one that both make.

    So one message can go to several destinations, and is stored once for each. The database's functions make the same.

    >>> row_id(UUID("0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01"), None)
    UUID('0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01')
    """
    if destination is None:
        return message_id
    digest = bytearray(hashlib.sha256(message_id.bytes + destination.encode()).digest()[:16])
    digest[:6] = message_id.bytes[:6]
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))
