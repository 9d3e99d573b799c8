"""A message that is to be enqueued, and what became of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Mapping, Optional, Union
from uuid import UUID

from . import checks
from .checks import Span
from .errors import InvalidMessage
from .ids import new_id, parse_id


@dataclass(frozen=True)
class Raw:
    """A payload that is text already. Its characters are kept.

    >>> NewMessage("note", Raw("teapot")).text
    'teapot'
    """

    text: str = field(repr=False)


@dataclass(frozen=True)
class Unique:
    """A unique key: a text that at most one message of an outbox has at a time.

    >>> Unique.while_waiting("page-7").or_replace()
    Unique(key='page-7', until='started', span=None, if_taken='replace')
    """

    key: str
    until: Optional[str] = "started"
    span: Optional[int] = None
    if_taken: str = "keep"

    def __post_init__(self) -> None:
        checks.name("unique: the key", self.key)

    @classmethod
    def while_waiting(cls, key: str) -> Unique:
        """The message has the key until somebody begins to handle it."""
        return cls(key)

    @classmethod
    def until_done(cls, key: str) -> Unique:
        """The message has the key until it is done, dead, expired or dismissed."""
        return cls(key, "done")

    @classmethod
    def within(cls, key: str, time: Span) -> Unique:
        """The message has the key for this long, whatever becomes of it."""
        allowed = "use one second to a hundred years"
        return cls(key, None, checks.micros("unique: the time", time, 1_000_000, checks.CENTURY, allowed))

    def or_replace(self) -> Unique:
        """If a message that waits has the key, it is dismissed, and this one is stored."""
        return replace(self, if_taken="replace")

    def or_refuse(self) -> Unique:
        """If another message has the key, `UniqueKeyTaken` is raised, and nothing is stored."""
        return replace(self, if_taken="refuse")


@dataclass(frozen=True, repr=False)
class NewMessage:
    """A message to enqueue. Its arguments are checked, and it has its id from the beginning.

    >>> NewMessage("order.placed", {"order": 7}, lane="order-7").text
    '{"order": 7}'
    """

    topic: str
    payload: Any
    destination: Optional[str] = None
    correlation_id: Optional[str] = None
    lane: Optional[str] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    due_at: Optional[datetime] = None
    due_after: Optional[Span] = None
    head_start: Optional[Span] = None
    ttl: Optional[Span] = None
    max_attempts: Optional[int] = None
    kind: str = "Event"
    message_id: Optional[Union[UUID, str]] = None
    unique: Optional[Unique] = None

    text: str = field(init=False, compare=False)
    id: UUID = field(init=False, compare=False)
    due: Due = field(init=False, compare=False)
    lives: Optional[int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        checks.name("topic", self.topic)
        checks.kind(self.kind)
        checks.headers(self.headers)
        if self.destination is not None:
            checks.service("destination", self.destination)
        # As everywhere in Postroom, an empty one means none.
        for each in ("correlation_id", "lane"):
            value = getattr(self, each) or None
            object.__setattr__(self, each, value if value is None else checks.name(each, value))
        if self.max_attempts is not None:
            checks.attempts(self.max_attempts)
        if self.unique is not None and not isinstance(self.unique, Unique):
            raise InvalidMessage("unique", f"is a {type(self.unique).__name__}", 'use Unique.while_waiting("…")')
        object.__setattr__(self, "text", _text(self.payload))
        object.__setattr__(self, "id", new_id() if self.message_id is None else parse_id(self.message_id))
        object.__setattr__(self, "due", Due.of(self.due_at, self.due_after, self.head_start))
        allowed = "use more than zero and at most a hundred years"
        lives = None if self.ttl is None else checks.micros("ttl", self.ttl, 1, checks.CENTURY, allowed)
        object.__setattr__(self, "lives", lives)

    def __repr__(self) -> str:
        return f"NewMessage(topic={self.topic!r}, id={str(self.id)!r})"


@dataclass(frozen=True)
class Due:
    """When a message is due: at a time, or so many microseconds from now, or at once."""

    at: Optional[int] = None
    after: Optional[int] = None

    @classmethod
    def of(cls, at: Optional[datetime], after: Optional[Span], head_start: Optional[Span]) -> Due:
        given = [
            name for name, it in [("due_at", at), ("due_after", after), ("head_start", head_start)] if it is not None
        ]
        if len(given) > 1:
            raise InvalidMessage(given[0], f"is given, and {given[1]} as well", "use only one of them")
        if at is not None:
            return cls(at=checks.moment("due_at", at))
        if after is not None:
            return cls(after=checks.micros("due_after", after, 0, checks.CENTURY, "use zero to a hundred years"))
        if head_start is not None:
            return cls(after=-checks.micros("head_start", head_start, 0, checks.DAY, "use zero to 24 hours"))
        return cls()


@dataclass(frozen=True)
class Enqueued:
    """What became of a message.

    `duplicate` is true if it was not stored, because it is there already or another message has its unique key. It is
    None if that is not known: PostgreSQL and MySQL say nothing about a `message_id` of your own, and after a request
    that was repeated an earlier try may have stored it. The message is stored once either way.
    """

    message_id: str
    duplicate: Optional[bool] = False
    replaced: Optional[str] = None
    """The message that waited under the same unique key. It is dismissed."""
    kept_out_by: Optional[str] = None
    """The message that has the unique key, if the caller may know it."""


def _text(payload: Any) -> str:
    if isinstance(payload, Raw):
        text = payload.text
        if not isinstance(text, str):
            raise InvalidMessage("payload", f"is Raw of a {type(text).__name__}", "use Raw with a text")
    else:
        try:
            text = json.dumps(payload, ensure_ascii=False, allow_nan=False)
        except RecursionError:
            raise InvalidMessage("payload", "is nested too deeply", "use a flatter one") from None
        except (TypeError, ValueError) as error:
            # The reason names a type, and no value.
            why = str(error) if isinstance(error, TypeError) else "it has a number or a cycle that JSON cannot write"
            allowed = "use what json.dumps takes, or Raw with a text"
            raise InvalidMessage("payload", f"cannot be written as JSON: {why}", allowed) from None
    if "\0" in text:
        raise InvalidMessage("payload", "has the character U+0000", "leave it out: not every database can store it")
    return checks.encodable("payload", text)
