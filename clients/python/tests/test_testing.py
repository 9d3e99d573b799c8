"""The fake for other people's unit tests behaves like the real thing."""

from __future__ import annotations

import uuid
from typing import Any, Callable, List, Tuple

import pytest

import postroom
from postroom import (
    AsyncWorker,
    Conflict,
    InvalidMessage,
    Message,
    NewMessage,
    NoAnswer,
    NotFound,
    Raw,
    Retry,
    StillWaiting,
    Terminal,
    Unique,
    UniqueKeyTaken,
    Worker,
)
from postroom.push import PushReceiver, new_secret
from postroom.received import H
from postroom.testing import FakeClient, handle


def make(kind: str) -> Tuple[Any, Callable[[str], Callable[[H], H]]]:
    """Something with handlers, and what registers them."""
    if kind == "push":
        receiver = PushReceiver(new_secret())
        return receiver, receiver.on
    worker = (AsyncWorker if kind == "async" else Worker)("http://127.0.0.1:1", "token")
    return worker, worker.handle


@pytest.mark.parametrize("kind", ["worker", "async", "push"])
def test_handlers_run_until_nothing_is_left(kind: str) -> None:
    fake, (handlers, on) = FakeClient(), make(kind)
    attempts: List[int] = []

    @on("order.placed")
    def placed(message: Message) -> Any:
        fake.enqueue("order.paid", {"order": message.payload["order"]}, due_after=3600)
        return {"reserved": True}

    @on("order.paid")
    def paid(message: Message) -> None:
        attempts.append(message.attempt)
        if message.attempt < 3:
            raise Retry(after=60)

    @on("refused")
    def refused(message: Message) -> None:
        raise Terminal("no such order")

    @on("broken")
    def broken(message: Message) -> None:
        raise KeyError("customer 4711")

    sent = postroom.enqueue(fake, "order.placed", {"order": 7})
    assert fake.enqueued("order.placed").payload == {"order": 7}
    with pytest.raises(StillWaiting, match="ready|is not finished"):
        fake.wait(sent.message_id)
    ids = [
        fake.enqueue(topic, {}, lane="l" if topic == "broken" else None).message_id for topic in ["refused", "broken"]
    ]
    behind = fake.enqueue("order.paid", {}, lane="l")
    fake.enqueue("other", {})
    elsewhere = fake.enqueue("order.placed", {}, destination="billing")
    ran = fake.run(handlers)
    assert (ran.done, ran.dead, ran.unhandled) == (2, 2, ["other"])
    assert fake.wait(sent.message_id).answer == {"reserved": True} and attempts == [1, 2, 3]
    assert [fake.status(each).state for each in ids] == ["dead", "dead"]
    assert fake.status(ids[0]).only.last_error == "no such order"
    assert fake.status(ids[1]).only.attempts == 10
    assert fake.status(behind.message_id).state == "ready", "a dead message blocks its lane"
    assert fake.status(elsewhere.message_id).state == "ready", "it is for another service"


def test_it_raises_what_the_real_one_raises() -> None:
    fake = FakeClient()
    with pytest.raises(InvalidMessage, match="topic is empty"):
        fake.enqueue("", {})
    with pytest.raises(NotFound):
        fake.status(uuid.uuid4())
    with pytest.raises(NotFound):
        fake.cancel(uuid.uuid4())
    with pytest.raises(InvalidMessage, match="use 1 to 1000"):
        fake.enqueue_many([])
    fake.fails_with = NoAnswer("no answer from the test")
    for call in (lambda: fake.enqueue("a", {}), lambda: fake.enqueue_many([NewMessage("a", {})])):
        with pytest.raises(NoAnswer, match="no answer from the test"):
            call()
    fake.fails_with = None
    assert fake.messages == []
    with pytest.raises(AssertionError, match="0 messages of a were enqueued; in all: nothing"):
        fake.enqueued("a")


def test_ids_and_keys_tell_duplicates() -> None:
    fake, message = FakeClient(), NewMessage("a", {"n": 1})
    assert [fake.enqueue_message(message).duplicate for _ in range(2)] == [False, True]
    first = fake.enqueue("b", {"n": 1}, idempotency_key="k")
    assert fake.enqueue("b", {"n": 1}, idempotency_key="k") == postroom.Enqueued(first.message_id, duplicate=True)
    with pytest.raises(Conflict, match="422"):
        fake.enqueue("b", {"n": 2}, idempotency_key="k")
    assert [each.topic for each in fake.messages] == ["a", "b"]


def test_unique_keys() -> None:
    fake, key = FakeClient(), Unique.while_waiting("k")
    first = fake.enqueue("a", {}, unique=key)
    assert fake.enqueue("a", {}, unique=key).kept_out_by == first.message_id
    with pytest.raises(UniqueKeyTaken) as taken:
        fake.enqueue_many([NewMessage("b", {}), NewMessage("a", {}, unique=key.or_refuse())])
    assert taken.value.kept_out_by == first.message_id and len(fake.messages) == 1, "all or none"
    second = fake.enqueue("a", {}, unique=key.or_replace())
    assert second.replaced == first.message_id and fake.status(first.message_id).state == "dismissed"
    assert fake.cancel(second.message_id).cancelled == 1
    with pytest.raises(Conflict, match="too late"):
        fake.cancel(second.message_id)
    assert fake.enqueue("a", {}, unique=key).duplicate is False


def test_one_message_can_be_handled_alone() -> None:
    worker, on = make("worker")
    on("a")(lambda message: (message.source, message.payload))
    assert handle(worker, Message("id", "a", 7, source="shop")) == ("shop", 7)
    with pytest.raises(Retry, match="has no handler for b"):
        handle(worker, Message("id", "b", 7))
    on("b")(lambda message: object())
    with pytest.raises(Terminal, match="cannot be written as JSON"):
        handle(worker, Message("id", "b", 7))
    with FakeClient() as fake:
        fake.enqueue("a", Raw("teapot"))
        assert fake.enqueued("a").payload == "teapot" and fake.run(worker).done == 1
