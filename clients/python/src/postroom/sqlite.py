"""Connections to a SQLite file that Postroom works on too."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from os import PathLike
from typing import Any, Iterator, Union

from .sql.run import run
from .sql.sqlite import leave_checkpoints


def connect(path: Union[str, "PathLike[str]"], **options: Any) -> sqlite3.Connection:
    """Opens a file that a node or a worker uses at the same time.

    It waits up to five seconds for other writers, and every commit waits for the disk. If Python's SQLite is older
    than 3.51.3, which can in rare cases corrupt a file that another program writes to, the connection leaves all
    checkpoints to the worker (`PRAGMA wal_autocheckpoint = 0`); `postroom.enqueue` does the same on other connections.
    If no worker runs for a long time, the file beside the database (`-wal`) grows.

    Options go to `sqlite3.connect`. ::

        conn = postroom.sqlite.connect("shop.db")
    """
    options.setdefault("timeout", 5.0)
    conn: sqlite3.Connection = sqlite3.connect(path, **options)
    try:
        run(conn, leave_checkpoints())
        conn.execute("PRAGMA synchronous = FULL").close()
    except BaseException:
        conn.close()
        raise
    return conn


@contextmanager
def transaction(path: Union[str, "PathLike[str]"], **options: Any) -> Iterator[sqlite3.Connection]:
    """Opens a file, begins a transaction, commits it at the end or rolls it back after an exception, and closes it.

    It begins with IMMEDIATE: a transaction that reads first may not be able to write later. ::

        with postroom.sqlite.transaction("shop.db") as conn:
            conn.execute("INSERT INTO orders (id) VALUES (?)", (7,))
            postroom.enqueue(conn, "order.placed", {"order": 7})
    """
    conn = connect(path, isolation_level=None, **options)
    try:
        conn.execute("BEGIN IMMEDIATE")
        try:
            yield conn
        except BaseException:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            raise
        conn.execute("COMMIT")
    finally:
        conn.close()
