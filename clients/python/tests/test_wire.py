"""The wire between services: with a real node, and with answers that somebody made up."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest

import postroom
from postroom import Client, InvalidMessage, NoAnswer, Worker
from postroom.push import Response
from postroom.push.wsgi import headers_of
from postroom.wire import (
    Envelope,
    Key,
    MalformedEnvelope,
    NoReceipt,
    NotAcknowledged,
    Outgoing,
    Source,
    WireClient,
    WireReceiver,
    new_secret,
)

from .conftest import StartNode
from .node import TOKEN, free_port
from .scripted import Asked, Scripted, said
from .serving import serving

SECRET = new_secret()
KEY = Key("2026-11", SECRET)


def listening(port: int, folder: Path, algorithm: str = "HMAC-SHA256") -> str:
    """A node that receives from orders, and lets a worker fetch what arrives."""
    secret = folder / "key"
    secret.touch(mode=0o600)
    secret.write_text(SECRET)
    key = f'{{ file = "{secret}", algorithm = "{algorithm}" }}'
    return (
        f'[node]\nname = "inventory"\n[receiver]\nlisten = ["http://127.0.0.1:{port}"]\n'
        f'[sources.orders]\nkeys = {{ "2026-11" = {key} }}\ntopics = ["stock.*"]\n[handlers."*"]\npull = true\n'
    )


@pytest.mark.parametrize("algorithm", ["HMAC-SHA256", "HMAC-SHA512"])
def test_a_node_takes_what_we_sign_and_we_believe_its_receipt(node: StartNode, tmp_path: Path, algorithm: str) -> None:
    port = free_port()
    one = node(listening(port, tmp_path, algorithm))
    key = Key("2026-11", SECRET, algorithm=algorithm)
    client = WireClient(f"http://127.0.0.1:{port}", "orders", "inventory", [Key("other", new_secret()), key])
    message = Outgoing(
        "stock.reserve", {"order": 7, "shop": "größe ☃"}, "Command", "order-7", "lane ☃", {"a": "☃"}, due_at=1
    )
    first, second = client.send(message), client.send(message, attempt=2)
    assert (first.status, first.is_duplicate, second.is_duplicate) == (202, False, True)
    assert first.retention == 29 * 24 * 3600 and first.payload is None
    got: List[Any] = []
    worker = Worker(one.url, TOKEN, queues=["inbox"])

    @worker.handle("stock.reserve")
    def reserve(arrived: postroom.Message) -> None:
        got.append(arrived)
        worker.stop()

    worker.run(signals=False)
    [arrived] = got
    assert (arrived.message_id, arrived.source, arrived.kind) == (str(message.message_id), "orders", "Command")
    assert arrived.payload == {"order": 7, "shop": "größe ☃"} and arrived.headers == {"a": "☃"}
    assert (arrived.lane, arrived.correlation_id) == ("orders/lane ☃", "order-7")
    with pytest.raises(NotAcknowledged, match="422") as other_content:
        client.send(Outgoing("stock.reserve", {}, message_id=message.message_id))
    assert other_content.value.is_final and not other_content.value.uses_attempt
    with pytest.raises(NotAcknowledged, match="403") as not_allowed:
        client.send(Outgoing("price.change", {}))
    assert not not_allowed.value.is_final
    month = timedelta(days=30) // timedelta(microseconds=1)
    with pytest.raises(NotAcknowledged, match="410"):
        client.send(Outgoing("stock.reserve", {}, enqueued_at=message.enqueued_at - month))
    strangers = [
        WireClient(f"http://127.0.0.1:{port}", "orders", "inventory", Key("2026-11", new_secret())),
        WireClient(f"http://127.0.0.1:{port}", "others", "inventory", key),
        WireClient(f"http://127.0.0.1:{port}", "orders", "billing", key),
        WireClient(f"http://127.0.0.1:{port}/elsewhere", "orders", "inventory", key),
    ]
    for stranger, status in zip(strangers, [401, 401, 401, 404]):
        with pytest.raises(NoReceipt) as unproven:
            stranger.send(Outgoing("stock.reserve", {}))
        assert unproven.value.status == status
        stranger.close()
    client.close()


def test_a_node_sends_to_our_receiver_and_believes_our_receipt(node: StartNode, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").write_text(SECRET)
    keys = f'keys = {{ "2026-11" = {{ file = "{tmp_path}/key" }} }}'
    url = f'url = "http://127.0.0.1:{port}"'
    one = node(f'[node]\nname = "orders"\n[services.inventory]\n{url}\n{keys}\nmax_retries = 0\n')
    receiver = WireReceiver("inventory", [Source("orders", [KEY])])
    got: List[Envelope] = []

    def application(environ: Any, start_response: Any) -> Any:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        verified = receiver.verify("POST", environ["PATH_INFO"], headers_of(environ), body)
        response = answer(verified) if verified.is_ok else receiver.answer(verified)
        start_response(f"{response.status} said", list(response.headers.items()))
        return [response.body]

    def answer(verified: Any) -> Response:
        got.append(verified.envelope)
        order = json.loads(verified.envelope.payload)["order"]
        if order == 8:
            return receiver.answer(verified, 422, error="no such order")
        if order == 9:
            return receiver.answer(verified, 500, error="it failed")
        return receiver.answer(verified, payload={"shelf": order})

    with serving(application, port), Client(one.url, TOKEN) as client:
        fields: Dict[str, Any] = {
            "destination": "inventory",
            "kind": "Command",
            "lane": "order ☃",
            "headers": {"a": "☃"},
        }
        sent = client.enqueue("stock.reserve", {"order": 7}, correlation_id="c", **fields)
        assert client.wait(sent.message_id, timeout=60).answer == {"shelf": 7}
        for order, said_so in [(8, "no such order"), (9, "it failed")]:
            refused = client.enqueue("stock.reserve", {"order": order}, destination="inventory", kind="Command")
            status = client.wait(refused.message_id, timeout=60).only
            assert status.state == "dead" and said_so in str(status.last_error)
    envelope = got[0]
    assert (envelope.message_id, envelope.source, envelope.kind) == (sent.message_id, "orders", "Command")
    assert (envelope.endpoint, envelope.correlation_id, envelope.payload) == ("stock.reserve", "c", '{"order": 7}')
    assert envelope.headers["rf-lane"] == "order ☃" and envelope.own_headers == {"a": "☃"}


def receive(asked: Asked, **options: Any) -> Any:
    receiver = WireReceiver("inventory", [Source("orders", [KEY])])
    verified = receiver.verify(asked.method, asked.path, asked.headers, asked.body)
    response = receiver.answer(verified, **options)
    return response.status, dict(response.headers), response.body


def tamper(how: str) -> Any:
    def script(asked: Asked) -> Any:
        status, headers, body = receive(asked, retry_after=5)
        if how == "body":
            body = body.replace(b"false", b"true ")
        elif how == "status":
            status = 202
        elif how == "delay":
            headers["retry-after"] = "6"
        elif how == "no delay":
            del headers["retry-after"]
        elif how == "retention":
            headers["rf-inbox-retention"] = "1"
        elif how == "no receipt":
            del headers["rf-ack"]
        elif how == "padded":
            headers["rf-ack"] += "="
        elif how == "ninth":
            headers["rf-ack"] = "v2;kid=x;y," * 8 + headers["rf-ack"]
        elif how == "eighth":
            headers["rf-ack"] = "v2;kid=x;y, " * 7 + headers["rf-ack"]
        return status, headers, body

    return script


def send(script: Any, message: Optional[Outgoing] = None) -> Any:
    with Scripted(script) as server:
        client = WireClient(server.url, "orders", "inventory", KEY)
        try:
            return client.send(message or Outgoing("stock.reserve", {}))
        finally:
            client.close()


@pytest.mark.parametrize("how", ["body", "status", "delay", "no delay", "retention", "no receipt", "padded", "ninth"])
def test_an_answer_that_was_changed_on_the_way_proves_nothing(how: str) -> None:
    with pytest.raises(NoReceipt, match="has no valid receipt"):
        send(tamper(how))


@pytest.mark.parametrize("how", ["nothing", "eighth"])
def test_an_answer_that_was_not_changed_proves_it(how: str) -> None:
    assert send(tamper(how)).status == 200


def test_a_receipt_for_another_message_proves_nothing() -> None:
    kept: List[Any] = []

    def script(asked: Asked) -> Any:
        kept.append(receive(asked))
        return kept[0]

    with Scripted(script) as server:
        client = WireClient(server.url, "orders", "inventory", KEY)
        message = Outgoing("stock.reserve", {})
        client.send(message)
        for other in [message, Outgoing("stock.reserve", {})]:
            with pytest.raises(NoReceipt):
                client.send(other)
        client.close()


@pytest.mark.parametrize(
    ("status", "is_final", "uses_attempt"),
    [(400, True, False), (410, True, False), (413, True, False), (422, True, False), (500, False, True),
     (403, False, False), (404, False, False), (409, False, False), (503, False, False)],
)  # fmt: skip
def test_what_an_answer_with_a_receipt_means(status: int, is_final: bool, uses_attempt: bool) -> None:
    with pytest.raises(NotAcknowledged, match="for a reason") as raised:
        send(lambda asked: receive(asked, status=status, error="for a reason", retry_after=7))
    error = raised.value
    assert (error.status, error.is_final, error.uses_attempt, error.retry_after) == (status, is_final, uses_attempt, 7)


def test_an_answer_without_a_receipt_is_no_answer() -> None:
    for answer in [
        said(200, {"acknowledged": True}),
        (200, {}, b"<html>"),
        (302, {"location": "/"}, b""),
        said(422, {}),
    ]:
        with pytest.raises(NoReceipt):
            send(lambda _, answer=answer: answer)
    client = WireClient(f"http://127.0.0.1:{free_port()}", "orders", "inventory", KEY)
    with pytest.raises(NoAnswer):
        client.send(Outgoing("a", {}))


def test_a_key_is_used_only_while_it_is_valid() -> None:
    now = datetime.now(timezone.utc)
    past, future = now - timedelta(days=1), now + timedelta(days=1)
    for expired in [Key("2026-11", SECRET, begins=future), Key("2026-11", SECRET, ends=past)]:
        receiver = WireReceiver("inventory", [Source("orders", [expired])])

        def script(asked: Asked, receiver: WireReceiver = receiver) -> Any:
            response = receiver.answer(receiver.verify(asked.method, asked.path, asked.headers, asked.body))
            return response.status, dict(response.headers), response.body

        with pytest.raises(NoReceipt) as refused:
            send(script)
        assert refused.value.status == 401
    assert Key("k", SECRET, begins=past, ends=future).is_valid()


@pytest.mark.parametrize(
    "secret",
    [
        "hunter2",
        "rfsec_" + "A" * 42,
        "rfsec_" + "é" * 60,
        "base64:" + "A" * 43,
        "base64:" + "_" * 44,
        b"x" * 31,
        "x" * 31,
    ],
)
def test_a_weak_secret_is_refused_without_its_text(secret: Any) -> None:
    with pytest.raises(ValueError, match="the secret") as raised:
        Key("k", secret)
    assert str(secret) not in str(raised.value)


def test_the_forms_of_a_secret() -> None:
    forms: List[Tuple[Any, bytes]] = [
        ("rfsec_" + "-_" * 22, b"\xfb\xff\xbf" * 11),
        ("rfsec_" + "A" * 43 + "=", b"\0" * 32),
        ("base64:" + "A" * 43 + "=", b"\0" * 32),
        ("é" * 16, "é".encode() * 16),
        (b"x" * 32, b"x" * 32),
    ]
    for text, expected in forms:
        assert Key("k", text).sign_v1(b"a") == Key("k", expected).sign_v1(b"a")
    for kid in ["", "a;b", "a" * 65, "é"]:
        with pytest.raises(ValueError, match="the id of the key is not valid"):
            Key(kid, SECRET)


ENVELOPE = (
    '{"messageId": "a1b2c3d4-e5f6-7890-abcd-ef1234567890", "sourceServiceId": "orders", "messageType": "Signal", '
    '"endpoint": "a", "payload": %s}'
)


@pytest.mark.parametrize(
    "payload", ['{"b":1.0,  "b":[1e2, "\\u00e9"]}', "null", "9" * 5000, '"\\ud800"', " 7 ", "[" * 500 + "]" * 500]
)
def test_the_bytes_of_a_payload_are_kept(payload: str) -> None:
    envelope = Envelope.parse((ENVELOPE % payload).encode())
    assert envelope.payload == payload.strip()
    assert Envelope.parse(envelope.to_json()) == envelope


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"7", b"\xff", b"{", b"{}", b'{"a"', b'{"a":}', b'{"a":1,}', b'{"a" 1}', b"{'a':1}",
     (ENVELOPE % "NaN").encode(), (ENVELOPE % "1").encode() + b"x", (ENVELOPE % "[").encode(),
     (ENVELOPE % ('"' + "\x01" + '"')).encode(), (ENVELOPE % ("[" * 200_000)).encode(),
     (ENVELOPE % "1").replace('"a"', '"a b"').encode(), (ENVELOPE % "1").replace('"a"', "7").encode(),
     (ENVELOPE % "1").replace("Signal", "Event").encode(), (ENVELOPE % "1").replace("orders", "Orders").encode(),
     (ENVELOPE % "1").replace("a1b2", "A1B2").encode(), (ENVELOPE % '1, "payload": 1').encode(),
     (ENVELOPE % '1, "colour": 1').encode(), (ENVELOPE % '1, "headers": null').encode(),
     (ENVELOPE % '1, "headers": {"a": 1}').encode(), (ENVELOPE % '1, "correlationId": 1').encode()],
)  # fmt: skip
def test_what_is_no_envelope(body: bytes) -> None:
    with pytest.raises(MalformedEnvelope) as raised:
        Envelope.parse(body)
    assert "orders" not in str(raised.value)


def test_arguments_are_checked_before_anything_is_sent() -> None:
    client = WireClient(f"http://127.0.0.1:{free_port()}", "orders", "inventory", KEY)
    wrong = [
        Outgoing("a b", {}),
        Outgoing("a", object()),
        Outgoing("a", {}, kind="Event"),
        Outgoing("a", {}, correlation_id="a "),
        Outgoing("a", {}, lane="a\n"),
        Outgoing("a", {}, headers={"rf-lane": "a"}),
        Outgoing("a", {}, message_id=uuid.UUID(int=0)),
    ]
    for message in wrong:
        with pytest.raises(InvalidMessage):
            client.send(message)
    for url, source, destination, keys in [
        ("http://inventory.example", "orders", "inventory", KEY),
        ("https://inventory.example", "Orders", "inventory", KEY),
        ("https://inventory.example", "orders", "", KEY),
        ("https://inventory.example", "orders", "inventory", []),
    ]:
        with pytest.raises(ValueError):
            WireClient(url, source, destination, keys)  # type: ignore[arg-type]
