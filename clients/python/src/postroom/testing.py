"""For your own unit tests: a client without a node, and a way to run your handlers.

::

    def test_an_order_is_reserved():
        fake = FakeClient()
        place_order(fake, order=7)                     # your code: fake.enqueue(…), or postroom.enqueue(fake, …)
        assert fake.enqueued("order.placed").payload == {"order": 7}
        ran = fake.run(worker)                         # or a PushReceiver
        assert (ran.done, ran.dead) == (1, 0)
        assert fake.wait(fake.messages[0].id).answer == {"reserved": True}
"""

from __future__ import annotations

import asyncio
import inspect
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, List, Mapping, Optional, Protocol, Sequence, Union
from uuid import UUID

from .checks import Span
from .errors import Conflict, InvalidMessage, NotFound, PostroomError, StillWaiting, UniqueKeyTaken
from .http.client import Cancelled
from .http.status import FINAL, MessageStatus, Status
from .ids import parse_id
from .message import Enqueued, NewMessage, Unique
from .push.response import done as answer_of
from .received import Handlers, Message, Retry, Terminal, told

ATTEMPTS = 10


class HasHandlers(Protocol):
    """A `Worker`, an `AsyncWorker` or a `PushReceiver`."""

    @property
    def handlers(self) -> Handlers: ...


@dataclass
class Recorded:
    """A message that was enqueued, and what became of it."""

    message: NewMessage
    state: str = "ready"
    attempts: int = 0
    last_error: Optional[str] = field(default=None, repr=False)
    answer: Any = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """The message's id."""
        return str(self.message.id)

    @property
    def topic(self) -> str:
        """The message's topic."""
        return self.message.topic

    @property
    def payload(self) -> Any:
        """The payload as a handler gets it."""
        try:
            return json.loads(self.message.text)
        except ValueError:
            return self.message.text


@dataclass(frozen=True)
class Ran:
    """How many messages are done and dead after a run, and the topics that have no handler."""

    done: int
    dead: int
    unhandled: Sequence[str]


class FakeClient:
    """Does what `Client` does, in memory. It also stands for a connection: `postroom.enqueue(fake, …)`.

    It makes the same checks and raises the same errors. `fake.fails_with = NoAnswer("down")` makes every call fail.
    """

    def __init__(self) -> None:
        self.messages: List[Recorded] = []
        self.fails_with: Optional[PostroomError] = None
        self._keys: Dict[str, NewMessage] = {}

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
        """Records a message."""
        message = NewMessage(
            topic, payload, destination, correlation_id, lane, headers or {}, due_at, due_after, head_start, ttl,
            max_attempts, kind, message_id, unique,
        )  # fmt: skip
        return self.enqueue_message(message, idempotency_key=idempotency_key)

    def enqueue_message(self, message: NewMessage, *, idempotency_key: Optional[str] = None) -> Enqueued:
        """Records a message that you made before."""
        self._check()
        if idempotency_key is not None:
            return self._keyed(message, idempotency_key)
        if any(each.message.id == message.id and _to(each) == message.destination for each in self.messages):
            return Enqueued(str(message.id), duplicate=True)
        holder = self._holder(message.unique)
        replaced = None
        if holder and message.unique:
            if message.unique.if_taken == "refuse":
                raise UniqueKeyTaken(f"message {holder.id} has the same unique key; nothing was stored", holder.id)
            if message.unique.if_taken != "replace" or holder.state != "ready":
                return Enqueued(str(message.id), duplicate=True, kept_out_by=holder.id)
            holder.state, replaced = "dismissed", holder.id
        self.messages.append(Recorded(message))
        return Enqueued(str(message.id), replaced=replaced)

    __postroom_enqueue__ = enqueue_message

    def enqueue_many(self, messages: Sequence[NewMessage]) -> List[Enqueued]:
        """Records many messages."""
        if not 1 <= len(messages) <= 1000:
            raise InvalidMessage("messages", f"are {len(messages)}", "use 1 to 1000 for each call")
        before = list(self.messages)
        try:
            return [self.enqueue_message(message) for message in messages]
        except PostroomError:
            self.messages = before
            raise

    def status(self, message_id: Union[UUID, str]) -> Status:
        """How a message stands."""
        self._check()
        named = parse_id(message_id)
        found = [each for each in self.messages if each.message.id == named]
        if not found:
            raise NotFound(404, "no message has this id", advice="check the id")
        return Status(str(named), tuple(map(_status, found)))

    def wait(self, message_id: Union[UUID, str], timeout: float = 30.0, *, for_answer: bool = False) -> Status:
        """How a message stands, without waiting: `StillWaiting` if it is not finished. Call `run` before."""
        status = self.status(message_id)
        if not status.is_final:
            raise StillWaiting(f"message {message_id} is not finished after {timeout:g} s", status)
        return status

    def cancel(self, message_id: Union[UUID, str]) -> Cancelled:
        """Takes back a message that waits."""
        self._check()
        found = [each for each in self.messages if each.message.id == parse_id(message_id)]
        if not found:
            raise NotFound(404, "no message has this id", advice="check the id")
        waiting = [each for each in found if each.state == "ready"]
        if not waiting:
            raise Conflict(409, "it is too late", advice="only a message that waits or is in progress can be cancelled")
        for each in waiting:
            each.state = "dismissed"
        return Cancelled(len(waiting), 0)

    def close(self) -> None:
        """Does nothing."""

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enqueued(self, topic: str) -> Recorded:
        """The only message of a topic; fails if there is none or there are several."""
        found = [each for each in self.messages if each.topic == topic]
        topics = ", ".join(each.topic for each in self.messages) or "nothing"
        assert len(found) == 1, f"{len(found)} messages of {topic} were enqueued; in all: {topics}"
        return found[0]

    def run(self, worker: HasHandlers) -> Ran:
        """Gives every message without a destination to its handler, and those that come from it, until none is left.

        It does not wait for due times and retries. A message is dead after its last attempt (`max_attempts`, or ten),
        and blocks its lane.
        """
        while True:
            blocked = {each.message.lane for each in self.messages if each.state == "dead" and each.message.lane}
            ready = [each for each in self.messages if each.state == "ready" and _to(each) is None]
            next_one = next(
                (each for each in ready if worker.handlers.find(each.topic) and each.message.lane not in blocked), None
            )
            if next_one is None:
                states = [each.state for each in self.messages]
                unhandled = sorted({each.topic for each in ready if not worker.handlers.find(each.topic)})
                return Ran(states.count("done"), states.count("dead"), unhandled)
            self._handle(worker, next_one)

    def _handle(self, worker: HasHandlers, each: Recorded) -> None:
        try:
            each.answer = handle(worker, message_of(each))
            each.state = "done"
        except Terminal as error:
            each.state, each.last_error = "dead", told(error)
        except Exception as error:
            each.attempts, each.last_error = each.attempts + 1, told(error)
            if each.attempts >= (each.message.max_attempts or ATTEMPTS):
                each.state = "dead"

    def _keyed(self, message: NewMessage, key: str) -> Enqueued:
        known = self._keys.get(key)
        if known is None:
            self._keys[key] = message
            return self.enqueue_message(message)
        if (known.topic, known.text, known.destination) != (message.topic, message.text, message.destination):
            raise Conflict(422, "this Idempotency-Key was used with other content", advice="use a new key")
        return Enqueued(str(known.id), duplicate=True)

    def _holder(self, unique: Optional[Unique]) -> Optional[Recorded]:
        if unique is None:
            return None
        for each in reversed(self.messages):
            its = each.message.unique
            if its and its.key == unique.key:
                is_over = each.state in FINAL and its.span is None
                return None if is_over else each
        return None

    def _check(self) -> None:
        if self.fails_with is not None:
            raise self.fails_with


def message_of(each: Recorded) -> Message:
    """A recorded message as a handler gets it."""
    message = each.message
    return Message(
        message_id=each.id,
        topic=message.topic,
        payload=each.payload,
        attempt=each.attempts + 1,
        kind=message.kind,
        correlation_id=message.correlation_id,
        lane=message.lane,
        headers=dict(message.headers),
    )


def handle(worker: HasHandlers, message: Message) -> Any:
    """Calls the handler of a message, such as one from another service, and returns its answer.

    What the handler raises is raised. An answer that could not be sent is an error. ::

        answer = handle(worker, Message("id-1", "stock.reserve", {"order": 7}, source="orders"))
    """
    handler = worker.handlers.find(message.topic)
    if handler is None:
        raise Retry(why=f"this worker has no handler for {message.topic}")
    answer = handler(message)
    if inspect.iscoroutine(answer):
        answer = asyncio.run(answer)
    response = answer_of(answer)
    if response.status == 422:
        raise Terminal(response.body.decode())
    return answer


def _to(each: Recorded) -> Optional[str]:
    return each.message.destination


def _status(each: Recorded) -> MessageStatus:
    message = each.message
    return MessageStatus(
        topic=message.topic,
        kind=message.kind,
        destination=message.destination,
        correlation_id=message.correlation_id,
        lane=message.lane,
        state=each.state,
        attempts=each.attempts,
        created_at=None,
        not_before=None,
        expires_at=None,
        finished_at=None,
        has_answer=each.answer is not None,
        last_error=each.last_error,
        answer=each.answer,
    )
