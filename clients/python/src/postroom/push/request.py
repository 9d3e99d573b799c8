"""Reads what a node posts."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any, Dict, Iterable, Mapping, Tuple, Union

from ..received import Message

Headers = Union[Mapping[str, str], Iterable[Tuple[str, str]]]

_KEPT = ("traceparent", "tracestate", "content-type")


def lower(headers: Headers) -> Dict[str, str]:
    """Headers by their names in lower case. One that comes twice counts as missing.

    >>> lower([("Webhook-Id", "a"), ("x", "1"), ("X", "2")])
    {'webhook-id': 'a'}
    """
    given: Dict[str, str] = {}
    twice = set()
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        name = name.lower()
        if name in given:
            twice.add(name)
        given[name] = _utf8(value)
    return {name: value for name, value in given.items() if name not in twice}


def _utf8(value: str) -> str:
    """Servers in Python read headers as Latin-1; a node writes UTF-8."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def is_id_of(signed: str, message_id: str) -> bool:
    """Whether a signed id is that of the message. An id that does not fit into a signature is hashed there."""
    as_bytes = message_id.encode(errors="replace")
    ids = [as_bytes, hashlib.sha256(as_bytes).hexdigest().encode()]
    return any([hmac.compare_digest(signed.encode(), each) for each in ids])


def message_of(headers: Mapping[str, str], body: bytes) -> Message:
    """The message in a request."""
    attempt = headers.get("postroom-attempt", "1")
    kind = headers.get("content-type", "application/json").split(";")[0].strip().lower()
    payload: Any = body.decode(errors="replace")
    is_json = kind == "application/json" or kind.endswith("+json")
    if is_json:
        try:
            payload = json.loads(body)
        except (ValueError, RecursionError):
            is_json = False
    return Message(
        message_id=headers.get("postroom-message-id", ""),
        topic=headers.get("postroom-topic", ""),
        payload=payload,
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 10 else 1,
        source=headers.get("postroom-source"),
        correlation_id=headers.get("postroom-correlation-id"),
        lane=headers.get("postroom-lane"),
        headers={name: headers[name] for name in _KEPT if name in headers},
        is_json=is_json,
    )
