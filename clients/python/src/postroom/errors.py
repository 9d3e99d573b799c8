"""What can go wrong. Every error of this package is a `PostroomError`.

No error quotes a payload, a token or a secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Sequence

if TYPE_CHECKING:
    from .http.status import Status


class PostroomError(Exception):
    """The base of every error of this package."""


class InvalidMessage(PostroomError, ValueError):
    """An argument is wrong. The text says what was wrong and what is allowed.

    `field` is the name of the argument.
    """

    def __init__(self, field: str, wrong: str, allowed: str) -> None:
        super().__init__(f"{field} {wrong}; {allowed}")
        self.field = field


class UnknownConnection(PostroomError, TypeError):
    """The object is no connection that this package knows."""


class NoTransaction(PostroomError):
    """The connection commits every statement by itself, and no transaction has begun.

    A message belongs into the transaction of the change that it is about.
    """


class UniqueKeyTaken(PostroomError):
    """Another message has the unique key, and `or_refuse()` was asked for. Nothing was stored.

    `kept_out_by` is the id of the message that has the key, if the database or the node told it.
    """

    def __init__(self, text: str, kept_out_by: Optional[str] = None) -> None:
        super().__init__(text)
        self.kept_out_by = kept_out_by


class NoAnswer(PostroomError):
    """No answer came: the address does not answer, the connection broke, or time ran out.

    The request may have been carried out or not. `message_id` is the id of a message that was being enqueued: repeat
    the call with this id, and the message is stored once.
    """

    message_id: Optional[str] = None


@dataclass(frozen=True)
class FieldError:
    """A field of the request that is wrong, and why."""

    field: str
    detail: str


class Refused(PostroomError):
    """The node refused a request. The text has the node's own words.

    `status` is the HTTP status, `detail` what was wrong, `advice` what to try or what is allowed, and `fields` the fields
    that were wrong. `kept_out_by` is the message that has the unique key.
    """

    message_id: Optional[str] = None

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        advice: str = "",
        fields: Sequence[FieldError] = (),
        kept_out_by: Optional[str] = None,
    ) -> None:
        self.status = status
        self.detail = detail
        self.advice = advice
        self.fields = tuple(fields)
        self.kept_out_by = kept_out_by or None
        # A node's advice on one field says the same as the field.
        named = [f"{each.field}: {each.detail}" for each in self.fields if each.detail != advice]
        said = ". ".join(part.rstrip(".") for part in [detail, "; ".join(named)] if part)
        super().__init__(f"{status}: {said}" + (f" (try: {advice})" if advice else ""))


class NotAllowed(Refused):
    """The token is missing, unknown or may not do this (401, 403)."""


class NotFound(Refused):
    """No message has this id, or the address is wrong (404)."""


class Conflict(Refused):
    """It contradicts what is there (409, 422): it is too late, or a key came with another message before."""


class Unavailable(Refused):
    """The node cannot serve this now (503 and the like). The same request may succeed later."""


class StillWaiting(PostroomError, TimeoutError):
    """The time is over, and the message is not finished. `status` is what was known last."""

    def __init__(self, text: str, status: Optional[Status]) -> None:
        super().__init__(text)
        self.status = status
