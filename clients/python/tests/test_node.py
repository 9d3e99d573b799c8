"""The client and a real node."""

from __future__ import annotations

import threading
import uuid
from typing import Any, List

import pytest

import postroom
from postroom import (
    Client,
    Conflict,
    NewMessage,
    NotAllowed,
    NotFound,
    Raw,
    Refused,
    StillWaiting,
    Unique,
    UniqueKeyTaken,
    Worker,
)

from .conftest import StartNode
from .node import TOKEN

PULL = '[handlers."*"]\npull = true\n'
# It sends to itself: what it sends arrives in its own inbox.
ITSELF = '[node]\nname = "shop"\n[services.shop]\nurl = "in-process"\n'


def test_everything_can_be_said_over_http(node: StartNode) -> None:
    one = node(PULL)
    with Client(one.url, TOKEN) as client:
        sent = client.enqueue(
            "order.placed",
            {"order": 7, "shop": "größe ☃"},
            correlation_id="order-7",
            lane="lane-7",
            headers={"a": "☃"},
            head_start=60,
            ttl=3600,
            max_attempts=3,
            kind="Command",
        )
        status = client.status(sent.message_id).only
        assert sent.duplicate is False
        assert (status.topic, status.kind, status.state) == ("order.placed", "Command", "ready")
        assert (status.correlation_id, status.lane, status.attempts, status.has_answer) == (
            "order-7",
            "lane-7",
            0,
            False,
        )
        assert status.created_at and status.not_before and status.expires_at
        assert round((status.created_at - status.not_before).total_seconds()) == 60
        assert round((status.expires_at - status.created_at).total_seconds()) == 3600
        assert client.enqueue("order.placed", {}, message_id=sent.message_id).duplicate is True
        raw = client.enqueue("raw", Raw('{"a":1.0,  "a":2}'))
    with postroom.sqlite.transaction(one.path) as conn:
        payloads = "SELECT payload FROM outbox_messages WHERE id = ?"
        [stored] = conn.execute(payloads, [uuid.UUID(raw.message_id).bytes]).fetchone()
    assert stored == '{"a":1.0,  "a":2}'


def test_keys_and_batches(node: StartNode) -> None:
    with Client(node(PULL).url, TOKEN) as client:
        first = client.enqueue("a", {"n": 1}, idempotency_key="order-7")
        again = client.enqueue("a", {"n": 1}, idempotency_key="order-7")
        assert (again.message_id, again.duplicate) == (first.message_id, True)
        with pytest.raises(Conflict, match="422: .*other content"):
            client.enqueue("a", {"n": 2}, idempotency_key="order-7")
        key = Unique.while_waiting("page-7")
        kept = client.enqueue("a", {}, unique=key, due_after=600)
        out = client.enqueue("a", {}, unique=key)
        assert (out.duplicate, out.kept_out_by) == (True, kept.message_id)
        with pytest.raises(UniqueKeyTaken) as taken:
            client.enqueue("a", {}, unique=Unique.until_done("page-7").or_refuse())
        assert taken.value.kept_out_by == kept.message_id
        assert client.enqueue("a", {}, unique=key.or_replace()).replaced == kept.message_id
        assert client.status(kept.message_id).state == "dismissed"
        messages = [NewMessage("b", {"n": n}, message_id=uuid.uuid4()) for n in range(1000)]
        assert [each.duplicate for each in client.enqueue_many(messages)] == [False] * 1000
        assert client.enqueue_many(messages[:2] + [NewMessage("b", {})])[0].duplicate is True
        with pytest.raises(Refused, match="400"):
            client.enqueue_many([NewMessage("c", {}, message_id=messages[0].id), _wrong()])


def _wrong() -> NewMessage:
    """A message that only the node finds out about."""
    message = NewMessage("c", {})
    object.__setattr__(message, "kind", "Nothing")
    return message


def test_what_the_node_refuses(node: StartNode) -> None:
    one = node(PULL, may='"enqueue"')
    with Client(one.url, "another-token") as stranger, pytest.raises(NotAllowed, match="401: .*valid token"):
        stranger.enqueue("a", {})
    with Client(one.url, TOKEN) as client:
        sent = client.enqueue("a", {})
        with pytest.raises(NotAllowed, match="403"):
            client.cancel(sent.message_id)
        with pytest.raises(NotFound, match="404: no message has this id"):
            client.status(uuid.uuid4())
        with pytest.raises(NotFound):
            client.wait(uuid.uuid4())
        with pytest.raises(Refused, match="413"):
            client.enqueue("a", "x" * 6 * 1024 * 1024)


def test_a_message_that_waits_is_cancelled(node: StartNode) -> None:
    with Client(node(PULL).url, TOKEN) as client:
        sent = client.enqueue("a", {}, due_after=600)
        told = client.cancel(sent.message_id)
        assert (told.cancelled, told.asked_to_stop) == (1, 0)
        assert client.wait(sent.message_id).state == "dismissed"
        with pytest.raises(Conflict, match="it is too late"):
            client.cancel(sent.message_id)


def test_waiting_sees_the_answer_as_soon_as_it_is_there(node: StartNode) -> None:
    one = node(PULL)
    worker = Worker(one.url, TOKEN, concurrency=1)
    goes_on = threading.Event()

    @worker.handle("order.placed")
    def placed(message: postroom.Message) -> Any:
        assert goes_on.wait(60)
        return {"order": message.payload["order"]}

    with Client(one.url, TOKEN) as client:
        sent = client.enqueue("order.placed", {"order": 7})
        with pytest.raises(StillWaiting):
            client.wait(sent.message_id, timeout=0.1)
        found: List[Any] = []
        waiting = threading.Thread(target=lambda: found.append(client.wait(sent.message_id, timeout=60)))
        waiting.start()
        worker.start()
        goes_on.set()
        waiting.join(60)
        worker.end()
    assert [status.answer for status in found] == [{"order": 7}]


def test_a_command_to_another_service_is_answered_later(node: StartNode) -> None:
    one = node(ITSELF + PULL)
    worker = Worker(one.url, TOKEN, queues=["inbox"])

    @worker.handle("stock.reserve")
    def reserve(message: postroom.Message) -> Any:
        return {"from": message.source, "item": message.payload["item"]}

    with postroom.sqlite.transaction(one.path) as conn:
        by_sql = postroom.enqueue(conn, "stock.reserve", {"item": "teapot"}, destination="shop", kind="Command")
    with Client(one.url, TOKEN) as client:
        by_http = client.enqueue("stock.reserve", {"item": "cup"}, destination="shop", kind="Command")
        worker.start()
        answers = [client.wait(each.message_id, timeout=60, for_answer=True).answer for each in [by_sql, by_http]]
        worker.end()
    assert answers == [{"from": "shop", "item": "teapot"}, {"from": "shop", "item": "cup"}]
