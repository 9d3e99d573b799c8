"""The client: what it repeats, what it raises, and how it waits."""

from __future__ import annotations

import threading
import uuid
from typing import Any, Callable, List

import pytest

from postroom import (
    Client,
    Conflict,
    FieldError,
    InvalidMessage,
    NewMessage,
    NoAnswer,
    NotAllowed,
    NotFound,
    Refused,
    StillWaiting,
    Unavailable,
    Unique,
    UniqueKeyTaken,
)

from .scripted import Asked, Scripted, in_turn, said

ID = "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01"
OTHER = "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f02"
BUSY = said(503, {"detail": "the database is unavailable", "advice": "try again later"})


def stored(asked: Asked, duplicate: bool = False) -> Any:
    return said(200 if duplicate else 201, {"messageId": asked.json["messageId"], "duplicate": duplicate})


def status(state: str, answer: Any = None, **more: Any) -> Any:
    told = {"topic": "a", "kind": "Event", "destination": None, "correlationId": None, "lane": None, "attempts": 1}
    times = dict.fromkeys(["createdAt", "notBefore", "expiresAt", "finishedAt", "lastError"])
    has = {"hasAnswer": answer is not None, "answer": answer}
    return {**told, **times, **has, "state": state, **more}


def quiet(client: Client) -> List[float]:
    """Notes the pauses, and makes none."""
    pauses: List[float] = []
    client._session._pause = pauses.append
    return pauses


def test_an_enqueue_is_repeated_with_the_same_id_until_the_node_answers() -> None:
    steps: List[str] = []

    def script(asked: Asked) -> Any:
        steps.append(asked.json["messageId"])
        return {1: BUSY, 2: None, 3: said(502)}.get(len(steps)) if len(steps) < 4 else stored(asked, duplicate=True)

    with Scripted(script) as node, Client(node.url, "token") as client:
        pauses = quiet(client)
        sent = client.enqueue("a", {"order": 7})
    # The connection that broke had been used before, so it may just have been idle for too long.
    assert len(pauses) == 2 and pauses[0] <= 0.1 and pauses[1] <= 0.2
    assert len(set(steps)) == 1 and sent.message_id == steps[0]
    assert sent.duplicate is False, "an earlier try stored it"
    asked = node.asked[0]
    assert (asked.method, asked.path) == ("POST", "/v1/messages")
    assert asked.headers["authorization"] == "Bearer token" and asked.headers["content-type"] == "application/json"


def test_an_id_of_ones_own_and_a_key_tell_duplicates() -> None:
    with Scripted(lambda asked: stored(asked, duplicate=True)) as node, Client(node.url, "token") as client:
        assert client.enqueue("a", {}, message_id=ID).duplicate is True
    answer = said(200, {"messageId": ID, "duplicate": True})
    with Scripted(lambda _: answer) as node, Client(node.url, "token") as client:
        assert client.enqueue("a", {}, idempotency_key="order-7").message_id == ID
        assert node.asked[0].headers["idempotency-key"] == "order-7" and "messageId" not in node.asked[0].json
        for wrong in ["", " ", "a" * 256, "é", "a\n"]:
            with pytest.raises(InvalidMessage, match="idempotency_key"):
                client.enqueue("a", {}, idempotency_key=wrong)
        with pytest.raises(InvalidMessage, match="use only one of them"):
            client.enqueue("a", {}, idempotency_key="k", message_id=ID)


def test_after_a_repetition_it_is_not_known_who_stored_it() -> None:
    def script(asked: Asked) -> Any:
        return BUSY if len(node.asked) % 2 else stored(asked, duplicate=True)

    with Scripted(script) as node, Client(node.url, "token") as client:
        quiet(client)
        assert client.enqueue("a", {}, message_id=ID).duplicate is None
        assert client.enqueue_message(NewMessage("a", {})).duplicate is None
        assert client.enqueue("a", {}).duplicate is False


def test_a_node_that_stays_away_is_an_error_with_the_id_to_repeat_with() -> None:
    with Scripted(lambda _: BUSY) as node, Client(node.url, "token", retry_for=0) as client:
        with pytest.raises(Unavailable, match="503: the database is unavailable .try: try again later.") as busy:
            client.enqueue("a", {}, message_id=ID)
        assert busy.value.message_id == ID
    with Client(node.url, "token", retry_for=0) as client:
        with pytest.raises(NoAnswer, match=f"no answer from http://127.0.0.1:{node.port}") as away:
            client.enqueue("a", {}, message_id=ID)
        assert away.value.message_id == ID


def test_a_node_is_given_the_time_that_it_asks_for() -> None:
    answers = in_turn(
        said(503, {}, retry_after="3"), said(429, {}, retry_after="Thu, 01 Jan 1970"), said(200, {"messages": []})
    )
    with Scripted(answers) as node, Client(node.url, "token") as client:
        pauses = quiet(client)
        client.status(ID)
    assert pauses[0] == 3 and pauses[1] < 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, Refused),
        (401, NotAllowed),
        (403, NotAllowed),
        (404, NotFound),
        (409, Conflict),
        (422, Conflict),
        (500, Refused),
    ],
)
def test_what_the_node_refuses_is_raised_in_its_own_words(code: int, kind: Any) -> None:
    short = said(code, {"title": "It is wrong", "advice": "do it right"})
    fields: Any = [{"field": "messages[2].topic", "detail": "is missing"}, 7]
    problem = {"title": "Wrong", "detail": "It has no topic.", "advice": "do it right", "errors": fields}
    with Scripted(in_turn(short, said(code, problem, content_type="application/problem+json"))) as node:
        client = Client(node.url, "token")
        with pytest.raises(kind) as first:
            client.enqueue("a", {})
        with pytest.raises(kind) as second:
            client.enqueue("a", {})
        client.close()
    assert str(first.value) == f"{code}: It is wrong (try: do it right)"
    error = second.value
    assert (error.status, error.detail) == (code, "It has no topic.")
    assert error.fields == (FieldError("messages[2].topic", "is missing"),)
    assert str(error) == f"{code}: It has no topic. messages[2].topic: is missing (try: do it right)"


def test_what_is_no_node_is_an_error() -> None:
    login = (200, {"content-type": "text/html"}, b"<html>log in</html>")
    answers = in_turn(login, (302, {"location": "/login"}, b""), (400, {}, b"[]"))
    with Scripted(answers) as node, Client(node.url, "token") as client:
        for words in ["the answer is no JSON object", "302: the request was refused", "400: the request was refused"]:
            with pytest.raises(Refused, match=words):
                client.enqueue("a", {})


def test_a_key_that_is_taken_is_an_error_of_its_own() -> None:
    why = f"message {OTHER} has the same unique key; nothing was stored"
    words = {"detail": why, "advice": "look at it", "keptOutBy": OTHER}
    with Scripted(lambda _: said(409, words)) as node, Client(node.url, "token") as client:
        with pytest.raises(UniqueKeyTaken, match="has the same unique key") as taken:
            client.enqueue("a", {}, unique=Unique.while_waiting("k").or_refuse())
        assert taken.value.kept_out_by == OTHER
        with pytest.raises(Conflict):
            client.enqueue("a", {}, unique=Unique.while_waiting("k"))
        with pytest.raises(UniqueKeyTaken):
            client.enqueue_many([NewMessage("a", {}), NewMessage("b", {}, unique=Unique.within("k", 60).or_refuse())])


def test_many_are_one_request() -> None:
    def script(asked: Asked) -> Any:
        return said(
            201, {"messages": [{"messageId": each["messageId"], "duplicate": False} for each in asked.json["messages"]]}
        )

    messages = [NewMessage("a", {"n": n}) for n in range(3)]
    with Scripted(script) as node, Client(node.url, "token") as client:
        told = client.enqueue_many(messages)
        for wrong in [[], messages * 400]:
            with pytest.raises(InvalidMessage, match="use 1 to 1000 for each call"):
                client.enqueue_many(wrong)
    assert [each.message_id for each in told] == [str(message.id) for message in messages]
    assert [each["payload"] for each in node.asked[0].json["messages"]] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_node_that_waits_is_asked_again_at_once() -> None:
    entered = threading.Event()

    def script(asked: Asked) -> Any:
        if not entered.is_set():
            entered.set()
            return said(200, {"messages": [status("ready")]})
        return said(200, {"messages": [status("done", {"shelf": 7}, createdAt="2026-11-15T12:00:30.123456Z")]})

    with Scripted(script) as node, Client(node.url, "token") as client:
        pauses = quiet(client)
        told = client.wait(ID, timeout=70)
    assert [asked.path for asked in node.asked] == [f"/v1/messages/{ID}?wait=30"] * 2
    assert len(pauses) == 1 and pauses[0] <= 0.05, "this node did not wait"
    assert (told.state, told.answer, told.message_id) == ("done", {"shelf": 7}, ID)
    created = told.only.created_at
    assert created is not None and created.isoformat() == "2026-11-15T12:00:30.123456+00:00"


def test_waiting_ends_with_the_time() -> None:
    with Scripted(lambda _: said(200, {"messages": [status("leased")]})) as node, Client(node.url, "token") as client:
        with pytest.raises(StillWaiting, match="is not finished after 0.2 s: leased") as raised:
            client.wait(ID, timeout=0.2)
        assert isinstance(raised.value, TimeoutError) and raised.value.status
        assert raised.value.status.state == "leased"


def test_waiting_for_an_answer_goes_on_after_the_delivery() -> None:
    there, dead = {"destination": "inventory"}, status("dead", destination="billing")
    answers = in_turn(
        said(200, {"messages": [status("done", **there), dead]}),
        said(200, {"messages": [status("done", 7, **there), dead]}),
        said(200, {"messages": [status("done", **there)]}),
    )
    with Scripted(answers) as node, Client(node.url, "token") as client:
        quiet(client)
        told = client.wait(ID, for_answer=True)
        assert [each.answer for each in told.messages] == [7, None]
        with pytest.raises(ValueError, match="the message has 2 destinations"):
            told.answer  # noqa: B018
        assert client.wait(ID).answer is None


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1",
        "127.0.0.1:7411",
        "http://",
        "http://a:b@127.0.0.1",
        "http://127.0.0.1/?a=b",
        "http://127.0.0.1:x",
        "http://1 2",
    ],
)
def test_a_url_that_is_none_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(ValueError, match="use one like https://node.example:7411") as raised:
        Client(url, "token")
    assert "a:b" not in str(raised.value)


@pytest.mark.parametrize("token", ["", "a b", "a\n", "é", None])
def test_a_token_that_is_none_is_refused_without_its_text(token: Any) -> None:
    with pytest.raises(ValueError, match="the token is not valid"):
        Client("http://127.0.0.1", token)


def test_a_token_is_not_sent_in_clear_to_another_machine() -> None:
    for url in ["http://node.example:7411", "http://10.0.0.1", "http://0.0.0.0"]:
        with pytest.raises(ValueError, match="http:// to another machine would send tokens and messages in clear"):
            Client(url, "token")
        Client(url, "token", allow_unencrypted=True)
    for url in ["http://localhost:1", "http://[::1]:1", "http://127.1.2.3", "https://node.example"]:
        Client(url, "token")


def test_ids_are_checked_before_they_are_part_of_an_address() -> None:
    client = Client("http://127.0.0.1:1", "token")
    calls: List[Callable[[str], Any]] = [client.status, client.wait, client.cancel]
    for call in calls:
        with pytest.raises(InvalidMessage, match="message_id is no UUID"):
            call("../admin")
    assert uuid.UUID(ID)
