"""Handles a message once: a row in a small table of yours, written in the transaction of the work."""

from __future__ import annotations

import time
from typing import Any, Dict, Optional, Protocol

from .checks import CENTURY, Span, micros
from .errors import InvalidMessage
from .sql.drivers import check_transaction, known
from .sql.run import run, run_async
from .sql.statement import Plan, Statement
from .sql.tables import Tables

TABLE = "postroom_handled"

_BYTES_MAX = {"source": 255, "message_id": 1020, "handler": 255}
_CREATE = {
    "sqlite": "source TEXT NOT NULL, message_id TEXT NOT NULL, handler TEXT NOT NULL, handled_at INTEGER NOT NULL,"
    " PRIMARY KEY (source, message_id, handler)) WITHOUT ROWID",
    "postgres": 'source text COLLATE "C", message_id text COLLATE "C", handler text COLLATE "C",'
    " handled_at bigint NOT NULL, PRIMARY KEY (source, message_id, handler))",
    "mysql": "source VARBINARY(255) NOT NULL, message_id VARBINARY(1020) NOT NULL, handler VARBINARY(255) NOT NULL,"
    " handled_at BIGINT NOT NULL, PRIMARY KEY (source, message_id, handler)) ENGINE = InnoDB",
}
_INSERT = {"sqlite": "INSERT", "postgres": "INSERT", "mysql": "INSERT IGNORE"}
_QUIETLY = {"sqlite": " ON CONFLICT DO NOTHING", "postgres": " ON CONFLICT DO NOTHING", "mysql": ""}


class Delivered(Protocol):
    """What `once` needs of a message."""

    @property
    def message_id(self) -> str: ...

    @property
    def source(self) -> Optional[str]: ...


def once(conn: Any, message: Delivered, *, handler: str = "", table: str = TABLE) -> bool:
    """Whether this is the first time. It writes the message's id into a table, in the transaction of `conn`.

    A message may be delivered again. Do your work in the same transaction, and it takes effect once. Create the table
    with `create_once_table`. If several handlers get the same message, give each a name. ::

        with conn:
            if postroom.once(conn, message):
                conn.execute("UPDATE stock SET reserved = reserved + 1")
    """
    check_transaction(conn)
    return run(conn, _mark(known(conn)[0], message, handler, table))


async def once_async(conn: Any, message: Delivered, *, handler: str = "", table: str = TABLE) -> bool:
    """The same for an AsyncSession or AsyncConnection of SQLAlchemy, or an AsyncConnection of psycopg."""
    return await run_async(
        conn,
        lambda: _mark("postgres", message, handler, table),
        lambda inner: once(inner, message, handler=handler, table=table),
    )


def create_once_table(conn: Any, *, table: str = TABLE) -> None:
    """Creates the table that `once` writes to, if it is missing. Your migrations may do it as well: see README.md.

    On MySQL and MariaDB this ends the transaction, as every change of a table does there.
    """
    dialect = known(conn)[0]
    run(conn, _do(f"CREATE TABLE IF NOT EXISTS {_checked(table)} ({_CREATE[dialect]}"))


def forget_handled(conn: Any, older_than: Span, *, table: str = TABLE) -> int:
    """Deletes the ids of messages that were handled longer ago than this, and returns their number.

    Keep them for longer than a message can be delivered again: a node retries by default for minutes, an operator may
    requeue a message after weeks. A month is a good start.
    """
    span = micros("older_than", older_than, 0, CENTURY, "use zero to a hundred years")
    values = {"before": time.time_ns() // 1000 - span}
    return run(conn, _do(f"DELETE FROM {_checked(table)} WHERE handled_at < {{before}}", values))


def _mark(dialect: str, message: Delivered, handler: str, table: str) -> Plan[bool]:
    values = {"source": message.source or "", "message_id": message.message_id, "handler": handler}
    for field, value in values.items():
        if len(value.encode()) > _BYTES_MAX[field]:
            raise InvalidMessage(field, f"has {len(value.encode())} bytes", f"use at most {_BYTES_MAX[field]}")
    done = yield Statement(
        f"{_INSERT[dialect]} INTO {_checked(table)} (source, message_id, handler, handled_at)"
        f" VALUES ({{source}}, {{message_id}}, {{handler}}, {{now}}){_QUIETLY[dialect]}",
        {**values, "now": time.time_ns() // 1000},
    )
    return done.count == 1


def _do(text: str, values: Optional[Dict[str, int]] = None) -> Plan[int]:
    return (yield Statement(text, values or {})).count


def _checked(table: str) -> str:
    Tables(outbox=table)
    return table
