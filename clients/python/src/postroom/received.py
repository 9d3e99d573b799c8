"""A message that a handler gets, and how the handler ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Callable, Dict, List, Mapping, Optional, TypeVar

from .checks import CENTURY, Span, micros, name, seconds

EVERY = "*"


class Stop:
    """Tells a handler to stop."""

    __slots__ = ("cancelled", "lease_lost")

    def __init__(self) -> None:
        self.cancelled = False
        self.lease_lost = False


@dataclass(frozen=True, repr=False)
class Message:
    """A message that a handler gets.

    `payload` is what its JSON stands for. If the payload is not JSON, it is the text, and `is_json` is false. `source`
    is the service that sent the message, None if it was enqueued here. `attempt` is 1 for the first. By `message_id`
    and `source` you recognise a message that is delivered again: see `once`.
    """

    message_id: str
    topic: str
    payload: Any
    attempt: int = 1
    source: Optional[str] = None
    kind: Optional[str] = None
    correlation_id: Optional[str] = None
    lane: Optional[str] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    created_at: Optional[datetime] = None
    is_json: bool = True
    _stop: Stop = field(default_factory=Stop, compare=False)

    @property
    def cancelled(self) -> bool:
        """Whether the handler should give up: somebody cancelled the message, the lease is lost, or the worker has to end.

        Look now and then. A cancel is noticed when the lease is renewed, after a third of its time.
        """
        return self._stop.cancelled or self._stop.lease_lost

    @property
    def lease_lost(self) -> bool:
        """Whether another worker has the message, or will get it. Roll back what you began."""
        return self._stop.lease_lost

    def __repr__(self) -> str:
        return f"Message(message_id={self.message_id!r}, topic={self.topic!r}, attempt={self.attempt})"


class Retry(Exception):
    """Raise it to have the message again: after this time, or after 2, 4, 8 … 60 seconds. It uses an attempt.

    A node that posts messages waits for an hour at most. ::

    raise Retry(after=30, why="the bank is closed")
    """

    def __init__(self, after: Optional[Span] = None, why: str = "") -> None:
        super().__init__(why or "the handler asked for a retry")
        allowed = "use zero to a hundred years"
        self.after = None if after is None else seconds(micros("after", after, 0, CENTURY, allowed))


class Terminal(Exception):
    """Raise it to refuse the message for good: it is dead at once. ::

    raise Terminal("no such order")
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)


Handler = Callable[[Message], Any]
H = TypeVar("H", bound=Handler)


class Handlers:
    """Handlers by topic. `"*"` is for every topic without a handler of its own."""

    def __init__(self) -> None:
        self._by_topic: Dict[str, Handler] = {}

    def add(self, topic: str) -> Callable[[H], H]:
        """A decorator that makes a function the handler of a topic."""
        name("topic", topic)

        def add(handler: H) -> H:
            if topic in self._by_topic:
                raise ValueError(f"the topic {topic} has a handler already")
            self._by_topic[topic] = handler
            return handler

        return add

    def find(self, topic: str) -> Optional[Handler]:
        """The handler of a topic, if there is one."""
        return self._by_topic.get(topic) or self._by_topic.get(EVERY)

    @property
    def topics(self) -> Optional[List[str]]:
        """The topics that have a handler; None if every topic has one."""
        return None if EVERY in self._by_topic else sorted(self._by_topic)


def told(error: BaseException) -> str:
    """What is stored about an error: its kind and its text."""
    if isinstance(error, (Retry, Terminal)):
        return str(error)
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
