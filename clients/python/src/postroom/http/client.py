"""A client of a node's HTTP API, for programs that cannot write to the database themselves."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, List, Mapping, Optional, Sequence, Union
from urllib.parse import quote
from uuid import UUID

from ..checks import Span
from ..errors import Conflict, InvalidMessage, NoAnswer, Refused, StillWaiting, Unavailable, UniqueKeyTaken
from ..ids import parse_id
from ..message import Enqueued, NewMessage, Unique
from .body import body_of
from .session import Session
from .status import MessageStatus, Status

BATCH_MAX = 1000
# The longest that a node lets one request wait.
WAIT_MAX = 30


@dataclass(frozen=True)
class Cancelled:
    """How many messages were cancelled, and how many are in progress and were asked to stop."""

    cancelled: int
    asked_to_stop: int


class Client:
    """Enqueues messages through a node, and asks what became of them. Threads may share it.

    A request that finds the node unavailable, or gets no answer, is repeated for `retry_for` seconds. A message has its
    id before it is sent, so it is stored once. `http://` is allowed to this machine only, unless `allow_unencrypted`
    says otherwise. ::

        client = Client("http://127.0.0.1:7411", os.environ["NODE_TOKEN"])
        sent = client.enqueue("stock.reserve", {"order": 7}, destination="inventory")
        print(client.wait(sent.message_id, timeout=20, for_answer=True).answer)
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        tls: Optional[ssl.SSLContext] = None,
        allow_unencrypted: bool = False,
    ) -> None:
        self._session = Session(
            url, token, timeout=timeout, retry_for=retry_for, tls=tls, allow_unencrypted=allow_unencrypted
        )

    def __repr__(self) -> str:
        return f"Client({self._session.address.origin!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._session.close()

    def enqueue(
        self,
        topic: str,
        payload: Any,
        *,
        destination: Optional[str] = None,
        correlation_id: Optional[str] = None,
        lane: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
        due_at: Optional[datetime] = None,
        due_after: Optional[Span] = None,
        head_start: Optional[Span] = None,
        ttl: Optional[Span] = None,
        max_attempts: Optional[int] = None,
        kind: str = "Event",
        message_id: Optional[Union[UUID, str]] = None,
        unique: Optional[Unique] = None,
        idempotency_key: Optional[str] = None,
    ) -> Enqueued:
        """Enqueues a message. When this returns, the message is durable.

        With an `idempotency_key` of yours, such as the id of an order, another call with the same key and content
        stores nothing, also after a restart of your program. `Conflict` says that the key came with another message
        before. ::

            client.enqueue("order.placed", {"order": 7}, idempotency_key="order-7")
        """
        message = NewMessage(
            topic, payload, destination, correlation_id, lane, headers or {}, due_at, due_after, head_start, ttl,
            max_attempts, kind, message_id, unique,
        )  # fmt: skip
        return self._enqueue(message, idempotency_key, is_fresh=message_id is None and idempotency_key is None)

    def enqueue_message(self, message: NewMessage, *, idempotency_key: Optional[str] = None) -> Enqueued:
        """Enqueues a message that you made before, and so know the id of."""
        return self._enqueue(message, idempotency_key, is_fresh=False)

    def _enqueue(self, message: NewMessage, idempotency_key: Optional[str], is_fresh: bool) -> Enqueued:
        if idempotency_key is not None and message.message_id is not None:
            raise InvalidMessage("idempotency_key", "is given, and message_id as well", "use only one of them")
        headers = {} if idempotency_key is None else {"idempotency-key": _key(idempotency_key)}
        repeats: List[None] = []
        try:
            told = self._session.call(
                "POST",
                "/v1/messages",
                body_of(message, with_id=idempotency_key is None),
                headers=headers,
                on_repeat=lambda: repeats.append(None),
            )
        except (NoAnswer, Unavailable) as error:
            error.message_id = str(message.id) if idempotency_key is None else None
            raise
        except Conflict as error:
            raise _taken(message, error) from error
        return _enqueued(told, bool(repeats), is_fresh)

    def enqueue_many(self, messages: Sequence[NewMessage]) -> List[Enqueued]:
        """Enqueues up to 1000 messages in one transaction: all of them or none. ::

        client.enqueue_many([NewMessage("order.paid", {"order": n}) for n in range(100)])
        """
        if not 1 <= len(messages) <= BATCH_MAX:
            raise InvalidMessage("messages", f"are {len(messages)}", f"use 1 to {BATCH_MAX} for each call")
        repeats: List[None] = []
        body = f'{{"messages": [{", ".join(map(body_of, messages))}]}}'
        try:
            told = self._session.call("POST", "/v1/messages/batch", body, on_repeat=lambda: repeats.append(None))
        except Conflict as error:
            raise next((_taken(each, error) for each in messages if each.unique), error) from error
        return [_enqueued(each, bool(repeats), is_fresh=False) for each in told["messages"]]

    def status(self, message_id: Union[UUID, str]) -> Status:
        """How a message stands. `NotFound` says that the node knows no message with this id."""
        return self._status(message_id, 0, None)

    def wait(self, message_id: Union[UUID, str], timeout: float = 30.0, *, for_answer: bool = False) -> Status:
        """Waits until the message is done, dead, expired or dismissed at every destination.

        A destination that queues what arrives answers later: the message is done once it is delivered. `for_answer`
        waits for the answer of such a destination too. `StillWaiting` says that the time is over. ::

            status = client.wait(sent.message_id, timeout=60)
            print(status.state, status.answer)
        """
        until = time.monotonic() + timeout
        status, pause = None, 0.05
        while True:
            began = time.monotonic()
            left = max(0.0, until - began)
            # The node counts whole seconds, and does not wait for the rest of one.
            wait = min(int(left), WAIT_MAX)
            try:
                status = self._status(message_id, wait, left)
            except (NoAnswer, Unavailable):
                if time.monotonic() >= until:
                    raise
            if status and status.is_final and (not for_answer or all(map(_is_answered, status.messages))):
                return status
            now = time.monotonic()
            if now >= until:
                state = ", ".join(each.state for each in status.messages) if status else "unknown"
                raise StillWaiting(f"message {message_id} is not finished after {timeout:g} s: {state}", status)
            if now - began < max(1, wait) / 2:
                # The node did not wait, or waits for less than we do.
                self._session._pause(min(pause, until - now))
                pause = min(pause * 1.5, 1.0)

    def cancel(self, message_id: Union[UUID, str]) -> Cancelled:
        """Takes back a message that waits, or asks one in progress to stop. The token needs the scope `operate`.

        `Conflict` says that it is too late.
        """
        told = self._session.call("POST", f"/_rf/outbox/{parse_id(message_id)}/cancel")
        return Cancelled(told["cancelled"], told["askedToStop"])

    def _status(self, message_id: Union[UUID, str], wait: int, retry_for: Optional[float]) -> Status:
        named = parse_id(message_id)
        query = f"?wait={wait}" if wait else ""
        path = f"/v1/messages/{quote(str(named))}{query}"
        told = self._session.call("GET", path, longer=wait, retry_for=retry_for)
        return Status(str(named), tuple(MessageStatus.of(each) for each in told["messages"]))


def _is_answered(status: MessageStatus) -> bool:
    # A handler here answers in the transaction that makes its message done.
    return status.has_answer or status.state != "done" or status.destination is None


def _enqueued(told: Mapping[str, Any], is_repeated: bool, is_fresh: bool) -> Enqueued:
    kept_out_by = told.get("keptOutBy")
    duplicate: Optional[bool] = bool(told["duplicate"])
    if duplicate and is_repeated and kept_out_by is None:
        # An earlier try of this call may have stored it. Of a fresh id nobody else knows.
        duplicate = False if is_fresh else None
    return Enqueued(str(told["messageId"]), duplicate, told.get("replaced"), kept_out_by)


def _taken(message: NewMessage, error: Refused) -> Exception:
    """The error of a unique key, if it is one."""
    if error.status != 409 or message.unique is None or message.unique.if_taken != "refuse":
        return error
    return UniqueKeyTaken(error.detail, error.kept_out_by)


def _key(key: str) -> str:
    if not isinstance(key, str) or not 1 <= len(key.strip()) <= 255 or not key.isascii() or not key.isprintable():
        raise InvalidMessage("idempotency_key", "is not valid", "use 1 to 255 ASCII characters")
    return key
