"""Enqueues a message in the caller's own transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Callable, Dict, Mapping, Optional, Union
from uuid import UUID

from ..checks import Span
from ..message import Enqueued, NewMessage, Unique
from . import mysql, postgres, sqlite
from .drivers import check_transaction, known
from .run import run, run_async
from .statement import Plan
from .tables import Tables

_PLANS: Dict[str, Callable[[NewMessage, Tables], Plan[Enqueued]]] = {
    "sqlite": sqlite.plan,
    "postgres": postgres.plan,
    "mysql": mysql.plan,
}


def enqueue(
    conn: Any,
    topic: str,
    payload: Any,
    *,
    destination: Optional[str] = None,
    correlation_id: Optional[str] = None,
    lane: Optional[str] = None,
    headers: Optional[Mapping[str, str]] = None,
    due_at: Optional[datetime] = None,
    due_after: Optional[Span] = None,
    head_start: Optional[Span] = None,
    ttl: Optional[Span] = None,
    max_attempts: Optional[int] = None,
    kind: str = "Event",
    message_id: Optional[Union[UUID, str]] = None,
    unique: Optional[Unique] = None,
    tables: Optional[Tables] = None,
) -> Enqueued:
    """Enqueues a message in the transaction of `conn`. The message exists if and only if you commit it.

    `conn` is a connection of sqlite3, psycopg, another driver for PostgreSQL, pymysql or another driver for MySQL and
    MariaDB, or a Session or Connection of SQLAlchemy. Nothing is committed here. ::

        conn.execute("INSERT INTO orders (id) VALUES (?)", (7,))
        postroom.enqueue(conn, "order.placed", {"order": 7}, lane="order-7")
        conn.commit()

    The payload is anything that `json.dumps` takes, or `Raw` with a text. Without a destination the message is handled
    here. At most one of `due_at`, `due_after` and `head_start` says when it is due.
    """
    message = NewMessage(
        topic, payload, destination, correlation_id, lane, headers or {}, due_at, due_after, head_start, ttl,
        max_attempts, kind, message_id, unique,
    )  # fmt: skip
    return enqueue_message(conn, message, tables=tables)


def enqueue_message(conn: Any, message: NewMessage, *, tables: Optional[Tables] = None) -> Enqueued:
    """Enqueues a message that you made before. Make it before the transaction, and you can run that again.

    If the connection breaks during your commit, you cannot know whether it happened. Enqueue the same message again in
    another transaction: it is stored once. ::

        message = NewMessage("order.placed", {"order": 7})
    """
    fake = getattr(conn, "__postroom_enqueue__", None)
    if fake is not None:
        return fake(message)  # type: ignore[no-any-return]
    dialect, _ = known(conn)
    check_transaction(conn)
    return run(conn, _PLANS[dialect](message, tables or Tables()))


async def enqueue_async(
    conn: Any,
    topic: str,
    payload: Any,
    *,
    destination: Optional[str] = None,
    correlation_id: Optional[str] = None,
    lane: Optional[str] = None,
    headers: Optional[Mapping[str, str]] = None,
    due_at: Optional[datetime] = None,
    due_after: Optional[Span] = None,
    head_start: Optional[Span] = None,
    ttl: Optional[Span] = None,
    max_attempts: Optional[int] = None,
    kind: str = "Event",
    message_id: Optional[Union[UUID, str]] = None,
    unique: Optional[Unique] = None,
    tables: Optional[Tables] = None,
) -> Enqueued:
    """The same for an AsyncSession or AsyncConnection of SQLAlchemy, or an AsyncConnection of psycopg. ::

    async with session.begin():
        session.add(Order(id=7))
        await postroom.enqueue_async(session, "order.placed", {"order": 7})
    """
    message = NewMessage(
        topic, payload, destination, correlation_id, lane, headers or {}, due_at, due_after, head_start, ttl,
        max_attempts, kind, message_id, unique,
    )  # fmt: skip
    return await enqueue_message_async(conn, message, tables=tables)


async def enqueue_message_async(conn: Any, message: NewMessage, *, tables: Optional[Tables] = None) -> Enqueued:
    """The same as `enqueue_message`, for asynchronous connections."""
    fake = getattr(conn, "__postroom_enqueue__", None)
    if fake is not None:
        return fake(message)  # type: ignore[no-any-return]
    if "psycopg" in type(conn).__module__:
        check_transaction(conn)
    return await run_async(
        conn,
        lambda: postgres.plan(message, tables or Tables()),
        lambda inner: enqueue_message(inner, message, tables=tables),
    )
