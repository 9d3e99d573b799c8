"""Receiving what a node posts: signatures, answers and adapters."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from typing import Any, Callable, Dict, List, Optional

import flask
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from postroom import Message, Retry, Terminal
from postroom.push import PushReceiver, Response, new_secret, wsgi
from postroom.push.fastapi import router
from postroom.push.flask import blueprint
from postroom.push.signature import Keys

SECRET = new_secret()
BODY = '{"order": 7, "shop": "größe"}'.encode()


def signed(body: bytes = BODY, *, secret: str = SECRET, at: Optional[int] = None, **more: str) -> Dict[str, str]:
    named = {"message_id": "id-1", "topic": "order.placed", "attempt": "1", **more}
    headers = {f"Postroom-{name.replace('_', '-').title()}": value for name, value in named.items()}
    signature = Keys(secret).sign(named["message_id"], int(time.time()) if at is None else at, body)
    return {"Content-Type": "application/json", **headers, **signature}


def receiver(handler: Callable[[Message], Any] = lambda message: None, **options: Any) -> PushReceiver:
    made = PushReceiver(SECRET, **options)
    made.on("order.placed")(handler)
    return made


def test_the_handler_gets_all_there_is_to_know() -> None:
    got: List[Message] = []
    headers = signed(source="shop", correlation_id="c ☃".encode().decode("latin-1"), lane="l", attempt="3")
    response = receiver(got.append).handle({**headers, "traceparent": "00-1"}, BODY)
    assert response == Response(204)
    [message] = got
    assert (message.message_id, message.topic, message.attempt, message.source) == ("id-1", "order.placed", 3, "shop")
    assert message.payload == {"order": 7, "shop": "größe"} and message.is_json
    assert (message.correlation_id, message.lane) == ("c ☃", "l")
    assert message.headers == {"traceparent": "00-1", "content-type": "application/json"}


def test_a_payload_that_is_no_json_is_a_text() -> None:
    got: List[Message] = []
    made = receiver(got.append)
    assert made.handle(signed(b"teapot"), b"teapot").status == 204
    assert made.handle({**signed(b"7"), "Content-Type": "text/plain"}, b"7").status == 204
    assert [(message.payload, message.is_json) for message in got] == [("teapot", False), ("7", False)]


def fails(error: BaseException) -> Callable[[Message], Any]:
    def handler(message: Message) -> Any:
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "status", "body", "after"),
    [
        (lambda message: {"reserved": True}, 200, b'{"reserved": true}', None),
        (lambda message: "größe", 200, '"größe"'.encode(), None),
        (lambda message: None, 204, b"", None),
        (fails(Terminal("no such order")), 422, b"no such order", None),
        (fails(Retry(after=30, why="closed")), 500, b"closed", "30"),
        (fails(Retry()), 500, b"the handler asked for a retry", None),
        (fails(KeyError("customer 4711")), 500, b"KeyError: 'customer 4711'", None),
        (lambda message: object(), 422, b"the handler is done, and its answer cannot be written as JSON", None),
        (lambda message: "x" * 65536, 422, b"the handler is done, and its answer has 65538 bytes", None),
    ],
)
def test_how_the_handler_ends_decides_the_answer(handler: Any, status: int, body: bytes, after: Optional[str]) -> None:
    response = receiver(handler).handle(signed(), BODY)
    assert response.status == status and response.body.startswith(body)
    assert response.headers.get("retry-after") == after


NOW = int(time.time())
OTHER_ID = {"Postroom-Message-Id": "id-2"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**signed(), "webhook-signature": ""},
        {**signed(), "webhook-signature": "v1,"},
        {**signed(), "webhook-signature": signed()["webhook-signature"].replace("v1,", "v1a,")},
        {**signed(), "webhook-signature": signed()["webhook-signature"].rstrip("=")},
        {**signed(), "webhook-signature": signed()["webhook-signature"] + "é"},
        {**signed(), "webhook-signature": "v1,x " * 16 + signed()["webhook-signature"]},
        signed(b"another body"),
        signed(secret=new_secret()),
        signed(at=NOW - 400),
        signed(at=NOW + 400),
        {**signed(), "webhook-timestamp": "now"},
        {**signed(), "webhook-timestamp": "٣"},
        {**signed(), "webhook-timestamp": "9" * 400},
        {**signed(), "webhook-id": "id-2"},
        {**signed(), **OTHER_ID},
        {**signed(message_id="a.b"), "Postroom-Message-Id": "a.b"},
        list(signed().items()) + [("WEBHOOK-ID", "id-1")],
    ],
)
def test_what_is_not_signed_is_refused(headers: Any) -> None:
    called: List[Message] = []
    response = receiver(called.append).handle(headers, BODY)
    assert response.status == 401 and not called
    assert response.body == b"the signature is missing, wrong or too old"


def test_an_id_that_does_not_fit_into_a_signature_is_hashed() -> None:
    strange = "shop/é.1"
    headers = signed(message_id=strange)
    digest = hashlib.sha256(strange.encode()).hexdigest()
    headers.update(Keys(SECRET).sign(digest, NOW, BODY))
    assert receiver().handle(headers, BODY).status == 204


def test_several_secrets_while_one_is_replaced() -> None:
    new = new_secret()
    both = PushReceiver([SECRET, new])
    both.on("*")(lambda message: None)
    for secret in (SECRET, new):
        assert both.handle(signed(secret=secret), BODY).status == 204
    headers = {**signed(), **Keys([new_secret(), new]).sign("id-1", NOW, BODY)}
    assert both.handle(headers, BODY).status == 204, "one of two signatures"
    assert repr(both) == "PushReceiver(topics=None)"


@pytest.mark.parametrize(
    "secret", ["", "hunter2", "whsec_", "whsec_" + base64.b64encode(b"x" * 23).decode(), "whsec_ü", [], [7]]
)
def test_a_weak_secret_is_refused_without_its_text(secret: Any) -> None:
    with pytest.raises(ValueError, match="secret") as raised:
        PushReceiver(secret)
    assert "hunter2" not in str(raised.value)
    # White space at the ends, as in a file, is not part of it.
    PushReceiver(f" {SECRET}\n")


def test_a_topic_without_a_handler_waits_and_one_handler_may_take_all() -> None:
    made = receiver()
    assert made.handle(signed(topic="order.paid"), BODY).status == 404
    made.on("*")(lambda message: message.topic)
    assert made.handle(signed(topic="order.paid"), BODY).body == b'"order.paid"'
    with pytest.raises(ValueError, match="the topic order.placed has a handler already"):
        made.on("order.placed")(print)


def test_a_body_over_the_limit_is_dead_and_holds_nobody_up() -> None:
    response = receiver(body_max=10).handle(signed(), BODY)
    assert response.status == 422 and b"larger than 10 bytes" in response.body


def test_the_log_has_no_payload(caplog: pytest.LogCaptureFixture) -> None:
    failed: List[Any] = []
    made = receiver(fails(ValueError("hush")), on_error=lambda message, error: failed.append(error))
    made.handle(signed(), BODY)
    assert "the handler of order.placed failed with ValueError: message id-1, attempt 1" in caplog.text
    assert "hush" not in caplog.text and len(failed) == 1


def test_coroutines() -> None:
    async def handler(message: Message) -> Any:
        return message.payload["order"]

    for made in [receiver(handler), receiver(lambda message: handler(message))]:
        assert made.handle(signed(), BODY).body == b"7"
        assert asyncio.run(made.handle_async(signed(), BODY)).body == b"7"
    assert asyncio.run(receiver(lambda message: 7).handle_async(signed(), BODY)).body == b"7"
    assert asyncio.run(receiver(fails(Terminal("no"))).handle_async(signed(), BODY)).status == 422
    assert asyncio.run(receiver().handle_async({}, BODY)).status == 401


def by_wsgi(made: PushReceiver) -> Any:
    """The WSGI application inside of Flask's test client, which sends what a server would."""
    app = flask.Flask("test")
    app.wsgi_app = wsgi(made)  # type: ignore
    return app.test_client()


def by_flask(made: PushReceiver) -> Any:
    app = flask.Flask("test")
    app.register_blueprint(blueprint(made))
    return app.test_client()


def by_fastapi(made: PushReceiver) -> Any:
    app = FastAPI()
    app.include_router(router(made))
    return TestClient(app)


@pytest.mark.parametrize("adapter", [by_wsgi, by_flask, by_fastapi])
def test_adapters(adapter: Callable[[PushReceiver], Any]) -> None:
    got: List[Message] = []

    def handler(message: Message) -> Any:
        got.append(message)
        return {"order": message.payload["order"]}

    client = adapter(receiver(handler, body_max=100))

    def post(body: bytes, headers: Dict[str, str]) -> Any:
        named = "content" if adapter is by_fastapi else "data"
        return client.post("/messages", **{named: body}, headers=headers)

    done = post(BODY, signed())
    assert done.status_code == 200 and done.headers["content-type"] == "application/json"
    assert (done.content if adapter is by_fastapi else done.data) == b'{"order": 7}'
    assert [message.payload["shop"] for message in got] == ["größe"]
    assert post(BODY, {}).status_code == 401
    assert post(BODY + b" " * 100, signed()).status_code == 422
    assert client.get("/messages").status_code == 405
