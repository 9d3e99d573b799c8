"""The rules for names, headers and times: the same that the database and the node apply."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from typing import Mapping, Optional, Union

from .errors import InvalidMessage

Span = Union[timedelta, int, float]
"""A length of time: a `timedelta`, or a number of seconds."""

KINDS = ("Event", "Signal", "Command", "PushCall", "Response")
NAME_MAX = 255
HEADERS_MAX = 64
HEADERS_BYTES_MAX = 16 * 1024
DAY = 24 * 3600 * 1_000_000
CENTURY = 100 * 365 * DAY
ATTEMPTS_MAX = 2**31 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Tells a receiver when the message expires.
EXPIRES_AT = "rf-expires-at"

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_SERVICE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def name(field: str, text: str) -> str:
    """A topic, a lane, a correlation id, a unique key or the name of a header.

    >>> name("lane", "order 7")
    'order 7'
    >>> name("topic", "")
    Traceback (most recent call last):
    postroom.errors.InvalidMessage: topic is empty; use 1 to 255 characters
    """
    if not isinstance(text, str):
        raise InvalidMessage(field, f"is a {type(text).__name__}", "use a text of 1 to 255 characters")
    if not text:
        raise InvalidMessage(field, "is empty", "use 1 to 255 characters")
    if len(text) > NAME_MAX:
        raise InvalidMessage(field, f"has {len(text)} characters", "use 1 to 255 characters")
    control = _CONTROL.search(text)
    if control:
        allowed = "leave out control characters such as line breaks"
        raise InvalidMessage(field, f"has the control character U+{ord(control.group()):04X}", allowed)
    if text.endswith(" "):
        raise InvalidMessage(field, "ends with a blank", "leave the blank out")
    return encodable(field, text)


def encodable(field: str, text: str) -> str:
    """A text that UTF-8 can write: no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidMessage(field, "has half of a surrogate pair", "use text that UTF-8 can write") from None
    return text


def service(field: str, text: str) -> str:
    """The name of a service."""
    if not isinstance(text, str) or not _SERVICE.fullmatch(text):
        allowed = "use 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit"
        raise InvalidMessage(field, "is no name of a service", allowed)
    return text


def kind(text: str) -> str:
    """One of the five kinds of message."""
    if text not in KINDS:
        raise InvalidMessage("kind", "is unknown", f"use {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return text


def headers(given: Mapping[str, str]) -> Mapping[str, str]:
    """Headers: an object of texts."""
    if len(given) > HEADERS_MAX:
        raise InvalidMessage("headers", f"are {len(given)}", f"use at most {HEADERS_MAX}")
    size = 0
    for each, value in given.items():
        name("headers: a name", each)
        if not isinstance(value, str):
            raise InvalidMessage(f"headers[{each!r}]", f"is a {type(value).__name__}", "use a text")
        if "\0" in value:
            raise InvalidMessage(f"headers[{each!r}]", "has the character U+0000", "leave it out")
        if each.startswith("rf-") and each != EXPIRES_AT:
            raise InvalidMessage(f"headers[{each!r}]", "is reserved", "use a name that does not begin with rf-")
        size += len(each.encode()) + len(encodable(f"headers[{each!r}]", value).encode())
    if size > HEADERS_BYTES_MAX:
        raise InvalidMessage("headers", f"have {size} bytes", f"use at most {HEADERS_BYTES_MAX}, names and values")
    return given


def micros(field: str, span: Span, least: int, most: int, allowed: str) -> int:
    """A length of time in microseconds.

    >>> micros("ttl", 1.5, 1, DAY, "use at most a day")
    1500000
    """
    if isinstance(span, bool) or not isinstance(span, (timedelta, int, float)):
        raise InvalidMessage(field, f"is a {type(span).__name__}", "use a timedelta or a number of seconds")
    if isinstance(span, timedelta):
        count = span // timedelta(microseconds=1)
    elif isinstance(span, float) and not math.isfinite(span):
        raise InvalidMessage(field, "is no length of time", allowed)
    else:
        count = round(span * 1_000_000)
    if not least <= count <= most:
        raise InvalidMessage(field, f"is {count / 1_000_000:g} s", allowed)
    return count


def moment(field: str, at: datetime) -> int:
    """A time in microseconds since 1970."""
    if not isinstance(at, datetime):
        raise InvalidMessage(field, f"is a {type(at).__name__}", "use a datetime with a time zone")
    if at.tzinfo is None or at.utcoffset() is None:
        raise InvalidMessage(field, "has no time zone", "use a time like datetime.now(timezone.utc)")
    return (at - EPOCH) // timedelta(microseconds=1)


def attempts(count: int) -> int:
    """How often a message is tried."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= ATTEMPTS_MAX:
        raise InvalidMessage("max_attempts", "is no such number", f"use a whole number from 1 to {ATTEMPTS_MAX}")
    return count


def seconds(span: Optional[int]) -> Optional[int]:
    """Microseconds as whole seconds, rounded up."""
    return None if span is None else -(-span // 1_000_000)
