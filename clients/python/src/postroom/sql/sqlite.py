"""Enqueues on SQLite: one INSERT."""

from __future__ import annotations

import time
from typing import Optional, Union
from uuid import UUID

from ..ids import row_id
from ..message import Enqueued, NewMessage
from .statement import Plan, Statement
from .tables import Tables
from .values import headers_text, kept_out

# Older ones can, very rarely, corrupt a file during a checkpoint while another program writes to it.
FIXED = (3, 51, 3)


def plan(message: NewMessage, tables: Tables) -> Plan[Enqueued]:
    """The statements that enqueue a message."""
    outbox = tables.outbox_in("sqlite")
    row = row_id(message.id, message.destination)
    yield from leave_checkpoints()
    replaced = None
    if message.unique:
        taken = yield from _take(message, outbox, row)
        if isinstance(taken, Enqueued):
            return taken
        replaced = taken
    now = time.time_ns() // 1000
    due = message.due.at if message.due.after is None else now + message.due.after
    stored = yield Statement(
        f"INSERT INTO {outbox} (id, message_id, topic, payload, destination, headers, correlation_id, lane, due_at,"
        " kind, expires_at, max_attempts) VALUES ({id}, {message_id}, {topic}, {payload}, {destination}, {headers},"
        " {correlation_id}, {lane}, {due_at}, {kind}, {expires_at}, {max_attempts}) ON CONFLICT (id) DO NOTHING",
        {
            "id": row.bytes,
            "message_id": None if row == message.id else message.id.bytes,
            "topic": message.topic,
            "payload": message.text,
            "destination": message.destination,
            "headers": headers_text(message),
            "correlation_id": message.correlation_id,
            "lane": message.lane,
            "due_at": due,
            "kind": message.kind,
            "expires_at": None if message.lives is None else now + message.lives,
            "max_attempts": message.max_attempts,
        },
    )
    return Enqueued(str(message.id), duplicate=stored.count == 0, replaced=replaced)


def leave_checkpoints() -> Plan[None]:
    """With an old library, leaves the checkpoints to the worker, which has a newer one."""
    version = yield Statement("SELECT sqlite_version()")
    if tuple(int(part) for part in str(version.value).split(".")) < FIXED:
        yield Statement("PRAGMA wal_autocheckpoint = 0")


def _take(message: NewMessage, outbox: str, row: UUID) -> Plan[Union[Enqueued, Optional[str]]]:
    """Takes the unique key: the id of the message that was replaced, if any; `Enqueued` if it is not to be stored."""
    assert message.unique is not None
    unique, name = message.unique, {"name": message.unique.key}
    # Not INSERT OR REPLACE: the row would forget which message was replaced.
    taken = yield Statement(
        f"INSERT INTO {outbox}_unique (name, id, until, until_done, replaces)"
        " VALUES ({name}, {id}, {until}, {until_done}, {replaces}) ON CONFLICT (name) DO UPDATE SET id = excluded.id,"
        " until = excluded.until, until_done = excluded.until_done, replaces = excluded.replaces, at = excluded.at",
        {
            **name,
            "id": row.bytes,
            "until": None if unique.span is None else time.time_ns() // 1000 + unique.span,
            "until_done": int(unique.until == "done"),
            "replaces": int(unique.if_taken == "replace"),
        },
    )
    if taken.count:
        replaced = yield Statement(f"SELECT replaced FROM {outbox}_unique WHERE name = {{name}}", name)
        return None if replaced.value is None else str(UUID(bytes=replaced.value))
    known = yield Statement(f"SELECT 1 FROM {outbox} WHERE id = {{id}}", {"id": row.bytes})
    if known.rows:
        return Enqueued(str(message.id), duplicate=True)
    holder = yield Statement(f"SELECT id FROM {outbox}_unique WHERE name = {{name}}", name)
    return kept_out(message, unique, None if holder.value is None else str(UUID(bytes=holder.value)))
