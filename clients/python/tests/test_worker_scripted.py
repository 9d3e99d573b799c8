"""What a worker says to a node, and what it makes of strange answers."""

from __future__ import annotations

import json
import queue
import threading
import time
from typing import Any, List, Optional, Set

import pytest

from postroom import Message, Retry, Worker
from postroom.http.retry import Backoff

from .scripted import Asked, Said, Scripted, said

PATIENCE = 60


def message(number: int, **more: Any) -> Any:
    told = {"lease": f"{number}.1.ab", "leasedUntil": "2026-11-15T12:00:30Z", "messageId": f"id-{number}", "topic": "a",
            "kind": "Event", "attempt": 1, "source": None, "correlationId": None, "lane": None, "headers": {},
            "createdAt": "2026-11-15T12:00:00Z", "payload": number}  # fmt: skip
    return {**told, **more}


def settled(asked: Asked, status: int = 200) -> Said:
    return said(status, {"results": [{"lease": item["lease"], "status": status} for item in asked.json["items"]]})


class Node:
    """Hands out some messages, and lets a test decide the answers to everything else."""

    def __init__(self, messages: int) -> None:
        self.left = [message(number) for number in range(messages)]
        self.acks: "queue.Queue[Asked]" = queue.Queue()
        self.ack_answers: List[Any] = []
        self.claim_answers: List[Optional[Said]] = []
        self.others: List[Asked] = []
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Optional[Said]:
        with self._lock:
            if asked.path.endswith("/claim"):
                if self.claim_answers:
                    return self.claim_answers.pop(0)
                count = asked.json["limit"]
                handed, self.left = self.left[:count], self.left[count:]
                return said(200, {"messages": handed})
            if not asked.path.endswith("/ack"):
                self.others.append(asked)
                return settled(asked)
            answer = self.ack_answers.pop(0) if self.ack_answers else settled
        self.acks.put(asked)
        return answer(asked) if callable(answer) else answer


def worker_of(server: Scripted, **options: Any) -> Worker:
    made = Worker(server.url, "token", queues=["outbox"], wait=0, **options)
    made._backoff = lambda: Backoff(0.001, 0.01)
    return made


def test_acks_gather_while_one_is_on_its_way() -> None:
    node, goes_on = Node(5), threading.Event()

    def slow(asked: Asked) -> Said:
        assert goes_on.wait(PATIENCE)
        return settled(asked)

    node.ack_answers = [slow]
    ended = threading.Semaphore(0)
    with Scripted(node) as server:
        worker = worker_of(server, concurrency=5)

        @worker.handle("a")
        def handle(arrived: Message) -> Any:
            if arrived.payload:
                assert first.wait(PATIENCE)
            ended.release()
            return {"n": arrived.payload}

        first = threading.Event()
        worker.start()
        alone = node.acks.get(timeout=PATIENCE).json["items"]
        first.set()
        for _ in range(5):
            assert ended.acquire(timeout=PATIENCE)
        # Every handler has ended; the others wait for the first request.
        assert worker._in_progress.wait_for_handlers(time.monotonic() + PATIENCE)
        goes_on.set()
        together = node.acks.get(timeout=PATIENCE).json["items"]
        worker.end()
    assert alone == [{"lease": "0.1.ab", "answer": {"n": 0}}]
    assert sorted(item["answer"]["n"] for item in together) == [1, 2, 3, 4]


def test_an_ack_is_repeated_until_it_is_answered() -> None:
    node = Node(1)
    html = (200, {"content-type": "text/html"}, b"<html>log in</html>")
    node.ack_answers = [
        None,
        said(503, {"detail": "busy"}),
        html,
        said(401, {"detail": "no token"}),
        said(200, {"results": []}),
    ]
    node.ack_answers.append(lambda asked: settled(asked, 503))
    with Scripted(node) as server:
        worker = worker_of(server)
        worker.handle("a")(lambda arrived: None)
        worker.start()
        asked = [node.acks.get(timeout=PATIENCE).json for _ in range(7)]
        worker.end()
    assert asked == [{"items": [{"lease": "0.1.ab"}]}] * 7


def test_a_lost_lease_is_not_settled_again(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(2)
    node.ack_answers = [lambda asked: settled(asked, 409), lambda asked: settled(asked, 400)]
    with Scripted(node) as server:
        worker = worker_of(server, concurrency=1)
        worker.handle("a")(lambda arrived: None)
        worker.start()
        for _ in range(2):
            node.acks.get(timeout=PATIENCE)
        worker.end()
        assert node.acks.empty()
    assert "ack of message id-0 (a) failed: the lease is lost" in caplog.text
    assert "ack of message id-1 (a) failed: 400" in caplog.text


def test_one_that_spoils_a_request_is_sent_alone() -> None:
    node, all_ended = Node(3), threading.Barrier(3)

    def refuse(asked: Asked) -> Said:
        items = asked.json["items"]
        return said(400, {"detail": "not JSON"}) if any(item["lease"] == "1.1.ab" for item in items) else settled(asked)

    node.ack_answers = [refuse] * 9
    with Scripted(node) as server:
        worker = worker_of(server, concurrency=3)

        @worker.handle("a")
        def handle(arrived: Message) -> None:
            all_ended.wait(PATIENCE)

        worker.start()
        done: Set[str] = set()
        while len(done) < 2:
            leases = {item["lease"] for item in node.acks.get(timeout=PATIENCE).json["items"]}
            done |= set() if "1.1.ab" in leases else leases
        worker.end()
    assert done == {"0.1.ab", "2.1.ab"}


def test_strange_answers_to_a_claim_are_survived() -> None:
    node = Node(1)
    strange = [(200, {}, b"<html>"), said(200, {"messages": [{}]}), said(200, {"messages": 7})]
    node.claim_answers = [None, said(503), *strange, said(500, {"detail": "?"}), said(429, {}, retry_after="1")]
    with Scripted(node) as server:
        worker = worker_of(server)
        worker.handle("a")(lambda arrived: None)
        worker.start()
        assert node.acks.get(timeout=PATIENCE)
        worker.end()


def test_a_message_without_a_handler_goes_back() -> None:
    node = Node(0)
    node.left = [message(0, topic="other")]
    with Scripted(node) as server:
        worker = worker_of(server)

        @worker.handle("a")
        def handle(arrived: Message) -> None:
            raise Retry

        worker.start()
        asked = next(each for each in iter(server.news.get, None) if each.path.endswith("/abandon"))
        worker.end()
    assert asked.json == {"items": [{"lease": "0.1.ab", "error": "this worker has no handler for other"}]}


def test_a_number_of_thousands_of_digits_is_read() -> None:
    node = Node(0)
    got: "queue.Queue[Any]" = queue.Queue()
    text = json.dumps({"messages": [message(0)]}).replace('"payload": 0', '"payload": ' + "9" * 5000)
    node.claim_answers = [(200, {}, text.encode())]
    with Scripted(node) as server:
        worker = worker_of(server)
        worker.handle("a")(lambda arrived: got.put(arrived.payload))
        worker.start()
        assert str(got.get(timeout=PATIENCE)) == "9" * 5000
        worker.end()
