"""A real node that posts to a receiver."""

from __future__ import annotations

import itertools
import queue
from pathlib import Path
from typing import Any, Dict, List

import postroom
from postroom import Client, Message, Retry, Terminal
from postroom.push import PushReceiver, new_secret, wsgi

from .conftest import StartNode
from .node import PATIENCE, TOKEN, free_port
from .serving import serving


def config(port: int, folder: Path) -> str:
    return f'[handlers."*"]\nurl = "http://127.0.0.1:{port}/"\nsecret = {{ file = "{folder}/handler.key" }}\n'


def write_secret(folder: Path) -> str:
    secret = new_secret()
    (folder / "handler.key").touch(mode=0o600)
    (folder / "handler.key").write_text(secret + "\n")
    return secret


def test_a_node_posts_and_gets_the_answer(node: StartNode, tmp_path: Path) -> None:
    secret, port = write_secret(tmp_path), free_port()
    one = node(config(port, tmp_path))
    receiver, calls = PushReceiver(secret), []

    @receiver.on("ok ☃")
    def ok(message: Message) -> Any:
        return {"got": message.payload, "lane": message.lane, "id": message.message_id}

    @receiver.on("refused")
    def refused(message: Message) -> None:
        raise Terminal("no such order ☃")

    @receiver.on("later")
    def later(message: Message) -> None:
        calls.append(message.attempt)
        if message.attempt == 1:
            raise Retry(after=1)

    @receiver.on("broken")
    def broken(message: Message) -> None:
        raise KeyError("customer 4711")

    with serving(wsgi(receiver), port), Client(one.url, TOKEN) as client:
        attempts = {"ok ☃": 1, "refused": 2, "later": 2, "broken": 1}
        sent = {
            topic: client.enqueue(topic, {"order": 7}, lane=f"{topic} ☃", max_attempts=most).message_id
            for topic, most in attempts.items()
        }
        ended = {topic: client.wait(each, timeout=60).only for topic, each in sent.items()}
    assert ended["ok ☃"].answer == {"got": {"order": 7}, "lane": "ok ☃ ☃", "id": sent["ok ☃"]}
    assert ended["refused"].state == "dead" and "no such order ☃" in str(ended["refused"].last_error)
    assert ended["broken"].state == "dead" and "KeyError: 'customer 4711'" in str(ended["broken"].last_error)
    retried = ended["later"]
    assert (retried.state, retried.attempts, retried.has_answer) == ("done", 1, False)
    assert calls == [1, 2]


def test_nothing_is_lost_or_doubled_when_the_node_is_killed(node: StartNode, tmp_path: Path) -> None:
    secret, port, shop, count = write_secret(tmp_path), free_port(), tmp_path / "shop.db", 60
    one = node(config(port, tmp_path) + '[worker]\nlease = "2s"\n')
    with postroom.sqlite.transaction(shop) as conn:
        postroom.create_once_table(conn)
        conn.execute("CREATE TABLE reserved (n INTEGER)")
    receiver, handled = PushReceiver(secret), itertools.count(1)
    killed: "queue.Queue[None]" = queue.Queue()

    @receiver.on("order.placed")
    def reserve(message: Message) -> Dict[str, int]:
        with postroom.sqlite.transaction(shop) as conn:
            if postroom.once(conn, message):
                conn.execute("INSERT INTO reserved VALUES (?)", [message.payload])
        if next(handled) == 10:
            # Killed after the work, and before the node hears of it.
            one.kill()
            killed.put(None)
        return {"n": message.payload}

    ids: List[str] = []
    with serving(wsgi(receiver), port), Client(one.url, TOKEN) as client:
        ids = [client.enqueue("order.placed", n).message_id for n in range(5)]
        with postroom.sqlite.transaction(one.path) as conn:
            ids += [postroom.enqueue(conn, "order.placed", n).message_id for n in range(5, count)]
        killed.get(timeout=PATIENCE)
        one.start()
        ended = [client.wait(each, timeout=60) for each in ids]
    assert [status.answer for status in ended] == [{"n": n} for n in range(count)]
    with postroom.sqlite.transaction(shop) as conn:
        assert [n for (n,) in conn.execute("SELECT n FROM reserved ORDER BY n")] == list(range(count))
