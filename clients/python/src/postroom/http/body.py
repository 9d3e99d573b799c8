"""A message as JSON for the node."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Dict, Optional

from ..checks import EPOCH, seconds
from ..errors import InvalidMessage
from ..message import NewMessage, Raw, Unique
from .session import dumped


def body_of(message: NewMessage, *, with_id: bool = True) -> str:
    """The body of a request that enqueues it. The payload's text is kept as it is.

    >>> body_of(NewMessage("note", {"a": 1.0}), with_id=False)
    '{"topic": "note", "payload": {"a": 1.0}}'
    """
    if isinstance(message.payload, Raw):
        try:
            json.loads(message.text)
        except (ValueError, RecursionError):
            allowed = "use JSON, or pass the text itself and not Raw"
            raise InvalidMessage("payload", "is no JSON, which the HTTP API needs", allowed) from None
    fields: Dict[str, Any] = {
        "topic": message.topic,
        "messageId": str(message.id) if with_id else None,
        "destination": message.destination,
        "correlationId": message.correlation_id,
        "lane": message.lane,
        "headers": dict(message.headers) or None,
        "kind": None if message.kind == "Event" else message.kind,
        "expiresAfterSeconds": seconds(message.lives),
        "maxAttempts": message.max_attempts,
        "unique": _unique(message.unique),
        "dueAt": None if message.due.at is None else _time(message.due.at),
    }
    after = message.due.after
    if after is not None:
        fields["dueAfterSeconds" if after >= 0 else "headStartSeconds"] = seconds(abs(after))
    given = dumped({name: value for name, value in fields.items() if value is not None})
    return f'{given[:-1]}, "payload": {message.text}}}'


def _unique(unique: Optional[Unique]) -> Optional[Dict[str, Any]]:
    if unique is None:
        return None
    lasts: Dict[str, Any] = {"forSeconds": seconds(unique.span)} if unique.span else {"until": unique.until}
    return {"key": unique.key, **lasts, "ifTaken": unique.if_taken}


def _time(micros: int) -> str:
    return (EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")
