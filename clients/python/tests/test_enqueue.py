"""Enqueueing in a transaction of one's own, on real databases."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, List, Optional

import pytest

import postroom
from postroom import NewMessage, Raw, Tables, Unique, UniqueKeyTaken
from postroom.ids import row_id

from .databases import Database

DUE = datetime(2100, 1, 1, tzinfo=timezone.utc)
MICROS = 4_102_444_800_000_000
DAY = 24 * 3600 * 1_000_000


def as_uuid(stored: Any) -> uuid.UUID:
    return stored if isinstance(stored, uuid.UUID) else uuid.UUID(bytes=bytes(stored))


def text(stored: Any) -> Any:
    return stored.decode() if isinstance(stored, (bytes, bytearray)) else stored


def test_a_commit_stores_it_and_a_rollback_does_not(database: Database) -> None:
    conn = database.connect()
    postroom.enqueue(conn, "order.placed", {"order": 6})
    conn.rollback()
    sent = postroom.enqueue(conn, "order.placed", {"order": 7, "shop": "größe ☃"})
    assert database.rows("topic") == [], "another connection sees it before the commit"
    conn.commit()
    conn.close()
    assert sent.duplicate is False and sent.kept_out_by is None and sent.replaced is None
    [(row, topic, payload, kind)] = database.rows("id, topic, payload, kind")
    assert str(as_uuid(row)) == sent.message_id
    assert (topic, payload, kind) == ("order.placed", '{"order": 7, "shop": "größe ☃"}', "Event")


def test_everything_can_be_said_of_a_message(database: Database) -> None:
    conn, message_id = database.connect(), "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01"
    for _ in range(2):
        postroom.enqueue(
            conn,
            "invoice.due",
            {"order": 7},
            destination="billing",
            message_id=message_id,
            headers={"traceparent": "00-1", "size": "größe ☃"},
            correlation_id="order-7",
            due_at=DUE,
            kind="Command",
            ttl=timedelta(days=100 * 365),
            max_attempts=3,
            lane="lane %s ☃",
        )
        conn.commit()
    conn.close()
    columns = "id, message_id, destination, headers, correlation_id, due_at, kind, max_attempts, lane, expires_at"
    [(row, stored, to, headers, correlation, due, kind, attempts, lane, expires)] = database.rows(columns)
    assert as_uuid(stored) == uuid.UUID(message_id)
    assert as_uuid(row) == row_id(uuid.UUID(message_id), "billing"), "the row has the id that the library makes"
    assert (to, correlation, due, kind, attempts, text(lane)) == (
        "billing",
        "order-7",
        MICROS,
        "Command",
        3,
        "lane %s ☃",
    )
    assert '"traceparent": "00-1"' in headers and "☃" in headers
    assert abs(expires / 1e6 - (datetime.now(timezone.utc).timestamp() + 100 * 365 * 86400)) < 600


@pytest.mark.parametrize(
    ("given", "offset"),
    [({}, 0), ({"due_after": 90}, 90), ({"due_after": timedelta(seconds=90)}, 90), ({"head_start": 60}, -60)],
)
def test_times_are_relative_to_now(database: Database, given: Any, offset: int) -> None:
    conn = database.connect()
    postroom.enqueue(conn, "a", None, destination="billing", **given)
    conn.commit()
    conn.close()
    [(visible, created, expires)] = database.rows("visible_at, created_at, expires_at")
    assert abs((visible - created) / 1e6 - offset) < 5
    assert abs((expires - max(visible, created)) / 1e6 - 86400) < 5, "a day after it is due"


def test_the_same_message_is_stored_once_for_each_destination(database: Database) -> None:
    conn, message_id = database.connect(), uuid.uuid4()
    for destination in [None, "billing", "orders-2.eu_west", "billing", None]:
        postroom.enqueue(conn, "a", {}, destination=destination, message_id=message_id)
    conn.commit()
    conn.close()
    assert len(database.rows("id")) == 3


def test_a_duplicate_is_told_where_the_database_tells_it(database: Database) -> None:
    conn, message = database.connect(), NewMessage("a", {}, message_id=uuid.uuid4())
    told = [postroom.enqueue_message(conn, message).duplicate for _ in range(2)]
    conn.commit()
    conn.close()
    known: List[Optional[bool]] = [False, True]
    assert told == (known if database.kind == "sqlite" else [None, None])
    assert len(database.rows("id")) == 1


def test_a_payload_may_be_any_text(database: Database) -> None:
    conn = database.connect()
    for payload in [Raw("teapot"), Raw('{"a":1.0,  "a":2}'), "a \"text\" 'with' {braces} %s \\ :name", [1, None], 1.5]:
        postroom.enqueue(conn, "a", payload)
    conn.commit()
    conn.close()
    stored = [row[0] for row in database.rows("payload")]
    assert stored[:2] == ["teapot", '{"a":1.0,  "a":2}']
    assert stored[2:] == ['"a \\"text\\" \'with\' {braces} %s \\\\ :name"', "[1, null]", "1.5"]


def test_a_unique_key_keeps_the_first(database: Database) -> None:
    conn = database.connect()
    first = postroom.enqueue(conn, "page.index", {"page": 7}, unique=Unique.while_waiting("page-7"))
    second = postroom.enqueue(conn, "page.index", {"page": 7}, unique=Unique.while_waiting("page-7"))
    other = postroom.enqueue(conn, "page.index", {"page": 8}, unique=Unique.until_done("page-8"))
    conn.commit()
    assert first.duplicate is False and other.duplicate is False
    assert second.duplicate is True and second.kept_out_by == first.message_id
    with pytest.raises(UniqueKeyTaken, match="has the same unique key; nothing was stored") as refused:
        postroom.enqueue(conn, "page.index", {}, unique=Unique.within("page-8", 3600).or_refuse())
    assert refused.value.kept_out_by == other.message_id
    conn.rollback()
    conn.close()
    assert len(database.rows("id")) == 2


def test_a_unique_key_replaces_what_waits(database: Database) -> None:
    conn, key = database.connect(), Unique.while_waiting("ключ ☃").or_replace()
    first = postroom.enqueue(conn, "page.notify", {"version": 1}, unique=key, due_after=10, destination="mail")
    second = postroom.enqueue(conn, "page.notify", {"version": 2}, unique=key, due_after=10, destination="mail")
    conn.commit()
    conn.close()
    assert first.replaced is None
    assert second.replaced == str(row_id(uuid.UUID(first.message_id), "mail"))
    assert [tuple(row) for row in database.rows("state")] == [(7,), (0,)]


def test_a_message_that_is_stored_takes_no_key_again(database: Database) -> None:
    conn = database.connect()
    message = NewMessage("a", {}, message_id=uuid.uuid4(), unique=Unique.while_waiting("k").or_refuse())
    told = [postroom.enqueue_message(conn, message) for _ in range(2)]
    conn.commit()
    conn.close()
    assert [each.duplicate for each in told] == [False, True] and told[1].kept_out_by is None


def test_a_key_for_a_time_ends_with_it(database: Database) -> None:
    conn = database.connect()
    postroom.enqueue(conn, "a", {}, unique=Unique.within("k", 3600))
    conn.commit()
    until = "SELECT until, at FROM " + database.outbox + "_unique"
    cursor = conn.cursor()
    cursor.execute(until)
    ((ends, at),) = cursor.fetchall()
    conn.close()
    assert abs((ends - at) / 1e6 - 3600) < 5


def test_what_the_database_refuses_is_its_error(database: Database) -> None:
    conn = database.connect()
    with pytest.raises(Exception, match="no_such_outbox"):
        postroom.enqueue(conn, "a", {}, tables=Tables(outbox="no_such_outbox"))
    conn.rollback()
    conn.close()
