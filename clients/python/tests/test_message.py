"""What is checked before anything is sent or stored."""

from __future__ import annotations

import json
import pickle
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, Dict

import pytest

from postroom import Client, Enqueued, InvalidMessage, NewMessage, PostroomError, Raw, Tables, Unique, Worker
from postroom.http.body import body_of
from postroom.ids import new_id, row_id
from postroom.push import PushReceiver
from postroom.push import new_secret as new_push_secret
from postroom.received import Message
from postroom.wire import Envelope, Key, Outgoing, WireClient, new_secret

BYTES: Any = b"a"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": ""}, "topic is empty; use 1 to 255 characters"),
        ({"topic": "a" * 256}, "topic has 256 characters; use 1 to 255 characters"),
        ({"topic": "a\nb"}, "topic has the control character U+000A; leave out control characters"),
        ({"topic": "a "}, "topic ends with a blank; leave the blank out"),
        ({"topic": 7}, "topic is a int; use a text"),
        ({"topic": "a\ud800"}, "topic has half of a surrogate pair"),
        ({"lane": "a\x9f"}, "lane has the control character U+009F"),
        ({"correlation_id": "a "}, "correlation_id ends with a blank"),
        ({"destination": "Billing"}, "destination is no name of a service; use 1 to 64 of a-z 0-9 . _ -"),
        ({"destination": ""}, "destination is no name of a service"),
        ({"destination": "a\n"}, "destination is no name of a service"),
        ({"kind": "event"}, "kind is unknown; use Event, Signal, Command, PushCall or Response"),
        ({"headers": {"a": 1}}, "headers['a'] is a int; use a text"),
        ({"headers": {"a ": "b"}}, "headers: a name ends with a blank"),
        ({"headers": {"rf-lane": "b"}}, "headers['rf-lane'] is reserved"),
        ({"headers": {"a": "b\0"}}, "headers['a'] has the character U+0000"),
        ({"headers": {"a": "é" * 8192}}, "headers have 16385 bytes; use at most 16384"),
        ({"headers": {str(n): "" for n in range(65)}}, "headers are 65; use at most 64"),
        ({"due_at": datetime(2100, 1, 1)}, "due_at has no time zone; use a time like datetime.now(timezone.utc)"),
        ({"due_at": "2100-01-01"}, "due_at is a str; use a datetime with a time zone"),
        ({"due_after": -1}, "due_after is -1 s; use zero to a hundred years"),
        ({"due_after": float("nan")}, "due_after is no length of time"),
        ({"due_after": "1"}, "due_after is a str; use a timedelta or a number of seconds"),
        ({"due_after": True}, "due_after is a bool"),
        ({"head_start": 86401}, "head_start is 86401 s; use zero to 24 hours"),
        ({"due_after": 1, "head_start": 1}, "due_after is given, and head_start as well; use only one of them"),
        ({"ttl": 0}, "ttl is 0 s; use more than zero and at most a hundred years"),
        ({"ttl": timedelta(days=40000)}, "ttl is 3.456e+09 s"),
        ({"max_attempts": 0}, "max_attempts is no such number; use a whole number from 1"),
        ({"max_attempts": 1.0}, "max_attempts is no such number"),
        ({"message_id": "seven"}, "message_id is no UUID; write it like 0190b3a6"),
        ({"message_id": uuid.UUID(int=0)}, "message_id is all zeros"),
        ({"payload": {"secret": object()}}, "payload cannot be written as JSON: Object of type object is not JSON"),
        ({"payload": {"secret": float("inf")}}, "payload cannot be written as JSON: it has a number or a cycle"),
        ({"payload": Raw("a\0")}, "payload has the character U+0000"),
        ({"payload": "\ud800"}, "payload has half of a surrogate pair"),
        ({"payload": Raw(BYTES)}, "payload is Raw of a bytes; use Raw with a text"),
        ({"unique": "page-7"}, 'unique is a str; use Unique.while_waiting("…")'),
    ],
)
def test_what_is_wrong_and_what_is_allowed(given: Dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidMessage) as raised:
        NewMessage(**{"topic": "a", "payload": {}, **given})
    assert said in str(raised.value)
    assert isinstance(raised.value, (PostroomError, ValueError))
    assert raised.value.field.split(":")[0].split("[")[0] in given


def test_a_cycle_and_a_deep_payload_are_refused() -> None:
    cycle: Dict[str, Any] = {}
    cycle["a"] = cycle
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for payload in [cycle, deep]:
        with pytest.raises(InvalidMessage, match="payload"):
            NewMessage("a", payload)


@pytest.mark.parametrize("key", ["", "a" * 256, "a ", "a\n"])
def test_a_unique_key_is_checked(key: str) -> None:
    with pytest.raises(InvalidMessage, match="unique: the key"):
        Unique.while_waiting(key)
    with pytest.raises(InvalidMessage, match="unique: the time is 0 s; use one second"):
        Unique.within("k", 0)


@pytest.mark.parametrize("name", ["outbox; DROP TABLE orders", "", "a.b", "1a", "a" * 49, "a\n", 'a"b'])
def test_names_of_tables_are_names(name: str) -> None:
    for given in ({"outbox": name}, {"schema": name}):
        with pytest.raises(InvalidMessage, match="is no name of a table"):
            Tables(**given)  # type: ignore[arg-type]
    assert Tables(schema="shop").outbox_in("postgres") == "shop.outbox"
    assert Tables(schema="shop").outbox_in("mysql") == "shop.infra_outbox"


def test_new_ids_sort_by_time_and_are_never_the_same() -> None:
    made = [new_id() for _ in range(1000)]
    assert len(set(made)) == 1000 and {each.version for each in made} == {7}
    assert [each.int >> 80 for each in made] == sorted(each.int >> 80 for each in made)
    assert {each.variant for each in made} == {uuid.RFC_4122}
    row = row_id(made[0], "billing")
    assert (row.version, row.variant, row.bytes[:6]) == (8, uuid.RFC_4122, made[0].bytes[:6])


def test_the_body_of_a_request_has_the_payload_as_it_is() -> None:
    message = NewMessage(
        "a",
        Raw('{"b":1.0,  "b":2}'),
        due_at=datetime(2100, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        ttl=1.5,
        unique=Unique.within("k", 60).or_refuse(),
        headers={"a": "b"},
    )
    body = body_of(message)
    assert body.endswith('"payload": {"b":1.0,  "b":2}}')
    told = json.loads(body)
    assert told["dueAt"] == "2100-01-01T10:00:00.000000Z" and told["expiresAfterSeconds"] == 2
    assert told["unique"] == {"key": "k", "forSeconds": 60, "ifTaken": "refuse"}
    assert told["messageId"] == str(message.id) and told["headers"] == {"a": "b"}
    assert json.loads(body_of(NewMessage("a", 1, head_start=5)))["headStartSeconds"] == 5
    assert json.loads(body_of(NewMessage("a", 1, due_after=5)))["dueAfterSeconds"] == 5
    for text in ["teapot", "", '{"a":', "1 2"]:
        with pytest.raises(InvalidMessage, match="payload is no JSON"):
            body_of(NewMessage("a", Raw(text)))


def test_nothing_prints_a_payload_a_token_or_a_secret() -> None:
    push, wire = new_push_secret(), new_secret()
    key = Key("k", wire)
    shown = [
        NewMessage("a", "hush"),
        Raw("hush"),
        Message("id", "a", "hush", headers={"a": "hush"}),
        Outgoing("a", "hush"),
        Envelope("id", "orders", "Signal", "a", '"hush"'),
        Client("http://127.0.0.1", "hush"),
        Worker("http://127.0.0.1", "hush"),
        PushReceiver(push),
        key,
        WireClient("http://127.0.0.1", "orders", "inventory", key),
        Enqueued("id"),
    ]
    for each in shown:
        for written in [repr(each), str(each)]:
            assert "hush" not in written and push not in written and wire not in written


def test_a_message_can_be_made_before_and_kept() -> None:
    message = NewMessage("a", {"order": 7}, lane="l")
    again = pickle.loads(pickle.dumps(message))
    assert again == message and again.id == message.id
    assert NewMessage("a", {}, lane="", correlation_id="").lane is None
