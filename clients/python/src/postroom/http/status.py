"""What a node says about a message."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, Mapping, Optional, Tuple

FINAL = ("done", "dead", "expired", "dismissed")


@dataclass(frozen=True)
class MessageStatus:
    """How a message stands at one of its destinations; `destination` is None for a handler here.

    `state` is ready, leased (in progress), done, dead, expired or dismissed. `answer` is what the handler returned, if
    the token may see payloads.
    """

    topic: Optional[str]
    kind: Optional[str]
    destination: Optional[str]
    correlation_id: Optional[str]
    lane: Optional[str]
    state: str
    attempts: int
    created_at: Optional[datetime]
    not_before: Optional[datetime]
    expires_at: Optional[datetime]
    finished_at: Optional[datetime]
    has_answer: bool
    last_error: Optional[str] = field(repr=False)
    answer: Any = field(repr=False)

    @property
    def is_final(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self.state in FINAL

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> MessageStatus:
        """Reads it from the node's JSON."""
        times: Dict[str, Optional[datetime]] = {
            name: moment(told.get(given))
            for name, given in [
                ("created_at", "createdAt"),
                ("not_before", "notBefore"),
                ("expires_at", "expiresAt"),
                ("finished_at", "finishedAt"),
            ]
        }
        return cls(
            topic=told.get("topic"),
            kind=told.get("kind"),
            destination=told.get("destination"),
            correlation_id=told.get("correlationId"),
            lane=told.get("lane"),
            state=str(told.get("state")),
            attempts=int(told.get("attempts") or 0),
            has_answer=bool(told.get("hasAnswer")),
            last_error=told.get("lastError"),
            answer=told.get("answer"),
            **times,
        )


@dataclass(frozen=True)
class Status:
    """How a message stands, once for each of its destinations."""

    message_id: str
    messages: Tuple[MessageStatus, ...]

    @property
    def is_final(self) -> bool:
        """Whether it is done, dead, expired or dismissed at every destination."""
        return all(each.is_final for each in self.messages)

    @property
    def state(self) -> str:
        """The state of a message with one destination, or none."""
        return self.only.state

    @property
    def answer(self) -> Any:
        """The answer to a message with one destination, or none."""
        return self.only.answer

    @property
    def only(self) -> MessageStatus:
        """The status of a message with one destination, or none."""
        if len(self.messages) != 1:
            raise ValueError(f"the message has {len(self.messages)} destinations; look at `messages`")
        return self.messages[0]


def moment(text: Any) -> Optional[datetime]:
    """A time in RFC 3339.

    >>> moment("2026-11-15T12:00:30.5Z")
    datetime.datetime(2026, 11, 15, 12, 0, 30, 500000, tzinfo=datetime.timezone.utc)
    """
    if not isinstance(text, str):
        return None
    whole, _, rest = text.replace("Z", "+00:00").partition(".")
    if rest:
        # Python before 3.11 reads three or six digits only.
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        whole += "." + digits.ljust(6, "0")[:6] + rest[len(digits) :]
    try:
        return datetime.fromisoformat(whole)
    except ValueError:
        return None
