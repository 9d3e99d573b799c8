"""Workers and a real node."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Set

import pytest

import postroom
from postroom import AsyncWorker, Client, Message, NewMessage, NotAllowed, Raw, Refused, Retry, Terminal, Worker

from .conftest import StartNode
from .node import PATIENCE, TOKEN

PULL = '[handlers."*"]\npull = true\n'


def test_a_handler_is_told_that_its_message_was_cancelled(node: StartNode) -> None:
    one = node(PULL)
    worker = Worker(one.url, TOKEN, lease=3)
    begun = threading.Event()

    @worker.handle("a")
    def handle(message: Message) -> None:
        begun.set()
        end = time.monotonic() + PATIENCE
        while not message.cancelled and time.monotonic() < end:
            threading.Event().wait(0.01)
        assert message.cancelled and not message.lease_lost
        raise Retry(why="it was cancelled")

    with Client(one.url, TOKEN) as client:
        sent = client.enqueue("a", {})
        worker.start()
        assert begun.wait(PATIENCE)
        assert client.cancel(sent.message_id).asked_to_stop == 1
        assert client.wait(sent.message_id, timeout=60).only.state == "dismissed"
        worker.end()


def test_how_a_message_ends(node: StartNode) -> None:
    one = node(PULL)
    failed: List[Any] = []
    worker = Worker(one.url, TOKEN, on_error=lambda message, error: failed.append((message.topic, error)))
    tries: "queue.Queue[Message]" = queue.Queue()

    @worker.handle("answer")
    def answer(message: Message) -> Any:
        return {"payload": message.payload, "is_json": message.is_json, "headers": dict(message.headers)}

    @worker.handle("nothing")
    def nothing(message: Message) -> None:
        assert (message.kind, message.source, message.lane, message.correlation_id) == ("Command", None, "l", "c")
        assert message.created_at is not None and not message.cancelled and not message.lease_lost

    @worker.handle("terminal")
    def terminal(message: Message) -> None:
        raise Terminal("no such order ☃")

    @worker.handle("retry")
    def retry(message: Message) -> None:
        tries.put(message)
        if message.attempt == 1:
            raise Retry(after=0, why="the bank is closed")

    @worker.handle("broken")
    def broken(message: Message) -> None:
        raise KeyError("customer 4711")

    @worker.handle("too long")
    def too_long(message: Message) -> Any:
        return "x" * 65 * 1024

    @worker.handle("no json")
    def no_json(message: Message) -> Any:
        return object()

    with postroom.sqlite.transaction(one.path) as conn:
        text = postroom.enqueue(conn, "answer", Raw("teapot"), headers={"a": "☃"})
    with Client(one.url, TOKEN) as client:
        topics = ["answer", "nothing", "terminal", "retry", "broken", "too long", "no json"]
        more: Dict[str, Any] = {"lane": "l", "correlation_id": "c", "kind": "Command"}
        sent = {
            topic: client.enqueue(topic, {"n": 7}, max_attempts=2, **(more if topic == "nothing" else {}))
            for topic in topics
        }
        worker.start()

        def ended(topic: str) -> Any:
            return client.wait(sent[topic].message_id, timeout=60).only

        assert client.wait(text.message_id).answer == {"payload": "teapot", "is_json": False, "headers": {"a": "☃"}}
        assert ended("answer").answer == {"payload": {"n": 7}, "is_json": True, "headers": {}}
        assert (ended("nothing").state, ended("nothing").has_answer) == ("done", False)
        assert ended("terminal").state == "dead" and "no such order ☃" in ended("terminal").last_error
        assert (ended("retry").state, ended("retry").attempts) == ("done", 1)
        assert [tries.get(timeout=PATIENCE).attempt for _ in range(2)] == [1, 2]
        assert ended("broken").state == "dead" and "KeyError: 'customer 4711'" in ended("broken").last_error
        assert "its answer has 66562 bytes; at most 65536 are allowed" in ended("too long").last_error
        assert "its answer cannot be written as JSON: TypeError" in ended("no json").last_error
        worker.end()
    assert [topic for topic, _ in failed] == ["broken", "broken"]


def test_the_log_has_no_payload_and_no_text_of_an_exception(node: StartNode, caplog: pytest.LogCaptureFixture) -> None:
    one = node(PULL)
    worker = Worker(one.url, TOKEN)

    @worker.handle("a")
    def broken(message: Message) -> None:
        raise ValueError(f"hush: {message.payload}")

    with Client(one.url, TOKEN) as client:
        sent = client.enqueue("a", "hush", max_attempts=1)
        worker.start()
        client.wait(sent.message_id)
        worker.end()
    assert "the handler of a failed with ValueError" in caplog.text
    assert "hush" not in caplog.text and TOKEN not in caplog.text


def test_a_lease_is_renewed_while_the_handler_works(node: StartNode) -> None:
    one = node(PULL)
    worker, calls = Worker(one.url, TOKEN, lease=1), []
    with Client(one.url, TOKEN) as client:

        @worker.handle("a")
        def slow(message: Message) -> str:
            calls.append(message)
            began = time.monotonic()
            times: Set[object] = set()
            # A lease that is renewed moves the time up to which the message is taken.
            while len(times) < 5:
                times.add(client.status(message.message_id).only.not_before)
            assert time.monotonic() - began > 1 and not message.cancelled
            return "done"

        sent = client.enqueue("a", {})
        worker.start()
        assert client.wait(sent.message_id, timeout=60).answer == "done"
        worker.end()
    assert [message.attempt for message in calls] == [1]


def test_a_handler_learns_that_its_lease_is_lost(node: StartNode) -> None:
    one = node(PULL)
    worker = Worker(one.url, TOKEN, lease=1)
    begun, seen = threading.Event(), threading.Event()

    @worker.handle("a")
    def slow(message: Message) -> None:
        begun.set()
        while not message.lease_lost:
            seen.wait(0.01)
        assert message.cancelled
        seen.set()

    with Client(one.url, TOKEN) as client:
        client.enqueue("a", {})
        worker.start()
        assert begun.wait(PATIENCE)
        one.kill()
        assert seen.wait(PATIENCE), "nobody renews it while the node is gone"
        one.start()
        worker.end()


def test_it_ends_at_once_when_it_has_nothing_to_do(node: StartNode) -> None:
    one = node(PULL)
    worker = Worker(one.url, TOKEN, wait=30)
    handled = threading.Event()
    worker.handle("a")(lambda message: handled.set())
    with Client(one.url, TOKEN) as client:
        worker.start()
        sent = client.enqueue("a", {})
        assert handled.wait(PATIENCE)
        client.wait(sent.message_id)
        began = time.monotonic()
        worker.end()
        assert time.monotonic() - began < 15, "it does not wait for the long poll"
        later = client.enqueue("a", {})
        assert client.status(later.message_id).state == "ready", "nobody claims any more"


def test_the_grace_is_for_handlers_and_then_messages_go_back(node: StartNode) -> None:
    one = node(PULL)
    worker = Worker(one.url, TOKEN, grace=0.2, concurrency=2)
    begun, ends = threading.Barrier(3), threading.Event()
    seen: "queue.Queue[bool]" = queue.Queue()

    @worker.handle("a")
    def handle(message: Message) -> str:
        begun.wait(PATIENCE)
        if message.payload == "quick":
            return "done"
        assert ends.wait(PATIENCE)
        seen.put(message.cancelled)
        return "too late"

    with Client(one.url, TOKEN) as client:
        quick, slow = client.enqueue("a", "quick"), client.enqueue("a", "slow")
        worker.start()
        begun.wait(PATIENCE)
        worker.end()
        assert client.wait(quick.message_id).answer == "done"
        status = client.status(slow.message_id).only
        assert (status.state, status.attempts) == ("ready", 1)
        assert status.last_error is not None and "the worker stopped before the handler ended" in status.last_error
        ends.set()
        assert seen.get(timeout=PATIENCE) is True
        # Another worker gets it at once.
        other = Worker(one.url, TOKEN)
        other.handle("a")(lambda message: "by the other")
        other.start()
        assert client.wait(slow.message_id).answer == "by the other"
        other.end()


def test_a_wrong_token_or_topic_is_an_error_from_the_beginning(node: StartNode) -> None:
    one = node('[handlers."a"]\npull = true\n')
    for token, topic, kind, said in [
        ("wrong", "a", NotAllowed, "valid token"),
        (TOKEN, "b", Refused, "cannot be fetched"),
    ]:
        worker = Worker(one.url, token)
        worker.handle(topic)(lambda message: None)
        with pytest.raises(kind, match=said):
            worker.run(signals=False)
    with pytest.raises(ValueError, match="the worker has no handler"):
        Worker(one.url, TOKEN).run(signals=False)
    for wrong in [{"lease": 0}, {"concurrency": 0}, {"wait": 31}, {"queues": ["drafts"]}, {"queues": []}]:
        with pytest.raises(ValueError, match="is not valid; use"):
            Worker(one.url, TOKEN, **wrong)  # type: ignore[arg-type]


def test_nothing_is_lost_or_doubled_when_the_node_is_killed(node: StartNode, tmp_path: Path) -> None:
    one, count, shop = node(PULL), 120, tmp_path / "shop.db"
    with postroom.sqlite.transaction(shop) as conn:
        postroom.create_once_table(conn)
        conn.execute("CREATE TABLE reserved (n INTEGER)")
    worker = Worker(one.url, TOKEN, lease=1, concurrency=4)
    calls: "queue.Queue[int]" = queue.Queue()
    again = threading.Event()

    @worker.handle("order.placed")
    def reserve(message: Message) -> int:
        with postroom.sqlite.transaction(shop) as conn:
            if postroom.once(conn, message):
                conn.execute("INSERT INTO reserved VALUES (?)", [message.payload])
        calls.put(message.payload)
        if message.payload == 70 and message.attempt == 1 and not again.is_set():
            # Its work is done, and the node is away until its lease is over: somebody else gets it.
            one.kill()
            while not message.lease_lost:
                again.wait(0.01)
            again.set()
            one.start()
        return int(message.payload)

    with Client(one.url, TOKEN) as client:
        sent = client.enqueue_many([NewMessage("order.placed", n) for n in range(count)])
        worker.start()
        for _ in range(20):
            calls.get(timeout=PATIENCE)
        one.kill()
        one.start()
        assert again.wait(PATIENCE)
        ended = [client.wait(each.message_id, timeout=60) for each in sent]
        worker.end()
    assert [(status.state, status.answer) for status in ended] == [("done", n) for n in range(count)]
    with postroom.sqlite.transaction(shop) as conn:
        reserved = [n for (n,) in conn.execute("SELECT n FROM reserved ORDER BY n")]
    assert reserved == list(range(count)), "once each"


def test_lost_acks_are_repeated(node: StartNode) -> None:
    one = node(PULL)
    worker = Worker(one.url, TOKEN, concurrency=1, wait=0)
    handling, goes_on, calls = threading.Event(), threading.Event(), []

    @worker.handle("a")
    def handle(message: Message) -> str:
        calls.append(message)
        handling.set()
        assert goes_on.wait(PATIENCE)
        return "done"

    with Client(one.url, TOKEN) as client:
        sent = client.enqueue("a", {})
        worker.start()
        assert handling.wait(PATIENCE)
        one.kill()
        goes_on.set()
        one.start()
        assert client.wait(sent.message_id, timeout=60).answer == "done"
        worker.end()
    assert len(calls) == 1, "the lease was still ours, so nobody handled it again"


PROGRAM = """
import os, postroom
worker = postroom.{kind}({url!r}, os.environ["NODE_TOKEN"])

@worker.handle("a")
{asynchronous}def handle(message):
    print("begun", flush=True)
    {wait}
    return "done"

print("ready", flush=True)
worker.run()
print("ended", flush=True)
"""


@pytest.mark.parametrize("kind", ["Worker", "AsyncWorker"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_handler_finish(node: StartNode, kind: str, number: int) -> None:
    one, is_async = node(PULL), kind == "AsyncWorker"
    # The handler ends when a line arrives, which is after the signal.
    wait = "await __import__('asyncio').get_running_loop().run_in_executor(None, input)" if is_async else "input()"
    text = PROGRAM.format(kind=kind, url=one.url, wait=wait, asynchronous="async " if is_async else "")
    with Client(one.url, TOKEN) as client:
        sent = client.enqueue("a", {})
        process = subprocess.Popen(
            [sys.executable, "-c", text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NODE_TOKEN": TOKEN},
        )
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "begun\n"]
        process.send_signal(number)
        rest, _ = process.communicate("go on\n", timeout=PATIENCE)
        assert (rest, process.returncode) == ("ended\n", 0)
        assert client.wait(sent.message_id).answer == "done"


def test_coroutines_handle_messages_in_the_loop_of_the_caller(node: StartNode) -> None:
    one = node(PULL)
    worker = AsyncWorker(one.url, TOKEN, concurrency=8, grace=0.2)
    together, cancelled = 0, threading.Event()
    all_there: Optional[asyncio.Event] = None

    @worker.handle("a")
    async def handle(message: Message) -> str:
        nonlocal together, all_there
        all_there = all_there or asyncio.Event()
        together += 1
        if together == 8:
            all_there.set()
        await all_there.wait()
        return "done"

    @worker.handle("slow")
    async def slow(message: Message) -> None:
        worker.stop()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with Client(one.url, TOKEN) as client:
        sent = client.enqueue_many([NewMessage("a", {}) for _ in range(8)])

        async def work() -> None:
            running = asyncio.ensure_future(worker.run_async())
            for each in sent:
                status = await asyncio.to_thread(client.wait, each.message_id, 60.0)
                assert status.answer == "done"
            client.enqueue("slow", {})
            await running

        asyncio.run(work())
        assert cancelled.wait(PATIENCE), "after the grace a coroutine is cancelled"
