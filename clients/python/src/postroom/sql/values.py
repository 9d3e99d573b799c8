"""Values as the databases want them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Optional

from ..checks import EPOCH
from ..errors import UniqueKeyTaken
from ..message import Enqueued, NewMessage, Unique


def headers_text(message: NewMessage) -> Optional[str]:
    """The headers as a JSON object, or nothing."""
    return json.dumps(dict(message.headers), ensure_ascii=False) if message.headers else None


def time_text(micros: int) -> str:
    """A time in UTC, as `2100-01-01 00:00:00.000000`."""
    return (EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%d %H:%M:%S.%f")


def kept_out(message: NewMessage, unique: Unique, kept_out_by: Optional[str]) -> Enqueued:
    """Another message has the unique key."""
    if unique.if_taken == "refuse":
        who = f"message {kept_out_by}" if kept_out_by else "another message"
        raise UniqueKeyTaken(f"{who} has the same unique key; nothing was stored", kept_out_by)
    return Enqueued(str(message.id), duplicate=True, kept_out_by=kept_out_by)
