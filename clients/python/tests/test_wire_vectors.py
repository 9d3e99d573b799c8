"""The shared vectors of guides/wire.md, right and wrong ones."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List

import pytest

from postroom.wire import Head, Key, ReceiptHead, Source, WireReceiver, is_signed_v1, sign_v1

from .paths import VECTORS


def read(name: str) -> List[Dict[str, Any]]:
    return [json.loads(line) for line in (VECTORS / name).read_text().splitlines()]


SIGNATURES, VERDICTS = read("signatures.jsonl"), read("verdicts.jsonl")


def key_of(vector: Dict[str, Any]) -> Key:
    return Key(vector["kid"], vector["secret"], algorithm=vector.get("algorithm", "HMAC-SHA256"))


def receipt_of(vector: Dict[str, Any]) -> ReceiptHead:
    beside = {"retry-after": vector.get("retryAfter"), "rf-inbox-retention": vector.get("retention")}
    given = {name: value for name, value in beside.items() if value is not None}
    body = vector["body"].encode()
    named = vector["destination"], vector["messageId"], vector["timestamp"]
    return ReceiptHead.of(*named, int(vector["status"]), given, body)


def v1_of(vector: Dict[str, Any]) -> Any:
    return vector["messageId"], vector["sourceServiceId"], vector["endpoint"], vector["payload"].encode()


@pytest.mark.parametrize("vector", SIGNATURES, ids=lambda vector: vector["what"])
def test_what_we_sign_has_the_signature_of_the_vector(vector: Dict[str, Any]) -> None:
    key = key_of(vector)
    if vector["what"] == "request":
        ours = ["source", "destination", "method", "path", "message_id", "enqueued_at", "due_at", "attempt"]
        theirs = ["source", "destination", "method", "path", "messageId", "enqueuedAt", "dueAt", "attempt"]
        named: Dict[str, Any] = {name: vector[given] for name, given in zip(ours, theirs)}
        digest = hashlib.sha256(vector["body"].encode()).digest()
        head = Head(**named, timestamp=vector["timestamp"], content_type=vector["contentType"], digest=digest)
        assert head.sign([key]) == vector["signature"]
    elif vector["what"] == "receipt":
        assert receipt_of(vector).sign([key]) == vector["signature"]
    else:
        assert sign_v1(key, *v1_of(vector)) == vector["signature"]


@pytest.mark.parametrize("vector", VERDICTS, ids=lambda vector: f"{vector['what']}: {vector['case']}")
def test_what_arrives_gets_the_verdict_of_the_vector(vector: Dict[str, Any]) -> None:
    key = key_of(vector)
    if vector["what"] == "receipt":
        assert receipt_of(vector).is_signed(vector["signature"], [key]) == vector["genuine"]
    elif vector["what"] == "v1":
        assert is_signed_v1(vector["signature"], [key], *v1_of(vector)) == vector["genuine"]
    else:
        receiver = WireReceiver(vector["receiver"], [Source(vector["knows"], [key], vector.get("topics"))])
        headers = [(name, value) for name, value in vector["headers"]]
        asked = vector["method"], vector["path"], headers, vector["body"].encode()
        verified = receiver.verify(*asked, now=int(vector["now"]))
        response = receiver.answer(verified)
        assert (str(response.status), "rf-ack" in response.headers) == (vector["answer"], vector["receipt"])


def test_there_are_right_and_wrong_ones() -> None:
    assert {vector["what"] for vector in SIGNATURES + VERDICTS} == {"request", "receipt", "v1"}
    answers = {vector["answer"] for vector in VERDICTS if "answer" in vector}
    assert answers == {"200", "400", "401", "403", "405", "410"}
    assert {vector["genuine"] for vector in VERDICTS if "genuine" in vector} == {True, False}
