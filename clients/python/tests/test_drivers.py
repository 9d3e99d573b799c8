"""The connections that people have: SQLAlchemy, asyncio, rows as dictionaries, autocommit."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pymysql.cursors
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import postroom
from postroom import Message, NoTransaction, Tables, Unique, UniqueKeyTaken, UnknownConnection

from . import databases
from .databases import Database, mysql_options

DUE = datetime(2100, 1, 1, tzinfo=timezone.utc)
MESSAGE = Message("id-1", "order.placed", {}, source="shop")


def engine_url(database: Database) -> str:
    scheme = {"sqlite": "sqlite:///", "postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}[database.kind]
    if database.kind == "sqlite":
        return scheme + database.url
    url = scheme + database.url[database.url.index("://") :]
    return url.replace("?socket=", "?unix_socket=")


def test_a_session_of_sqlalchemy(database: Database) -> None:
    engine = sqlalchemy.create_engine(engine_url(database))
    key = Unique.while_waiting("k")
    with Session(engine) as session, session.begin():
        first = postroom.enqueue(session, "a", {"n": ":one %s"}, due_after=5, ttl=60, max_attempts=2, unique=key)
    with Session(engine) as session:
        second = postroom.enqueue(session, "a", {}, unique=key)
        with pytest.raises(UniqueKeyTaken):
            postroom.enqueue(session, "a", {}, unique=key.or_refuse())
        postroom.enqueue(session, "b", {})
        postroom.create_once_table(session)
        assert postroom.once(session, MESSAGE) and not postroom.once(session, MESSAGE)
        session.rollback()
    engine.dispose()
    assert second.kept_out_by == first.message_id
    assert database.rows("topic, payload", "topic = 'a'") == [("a", '{"n": ":one %s"}')]


def test_a_connection_of_sqlalchemy(database: Database) -> None:
    engine = sqlalchemy.create_engine(engine_url(database))
    with engine.begin() as conn:
        postroom.enqueue(conn, "a", {})
    with engine.connect() as conn:
        postroom.enqueue(conn, "b", {})
    engine.dispose()
    assert database.rows("topic") == [("a",)]


def test_a_connection_of_sqlalchemy_that_commits_by_itself(on_postgres: Database) -> None:
    engine = sqlalchemy.create_engine(engine_url(on_postgres), isolation_level="AUTOCOMMIT")
    with engine.connect() as conn, pytest.raises(NoTransaction, match="begin a transaction first"):
        postroom.enqueue(conn, "a", {})
    with pytest.raises(UnknownConnection, match="use a Session or a Connection"):
        postroom.enqueue(engine, "a", {})
    engine.dispose()


def test_sessions_of_asyncio(binary: Path, tmp_path: Path) -> None:
    database = databases.sqlite(tmp_path)

    async def enqueue() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{database.url}")
        async with engine.begin() as conn:
            await conn.run_sync(postroom.create_once_table)
        async with AsyncSession(engine) as session, session.begin():
            await postroom.enqueue_async(session, "a", {}, unique=Unique.while_waiting("k"))
            assert await postroom.once_async(session, MESSAGE)
            assert not await postroom.once_async(session, MESSAGE)
            with pytest.raises(UnknownConnection, match="use the function that ends with _async"):
                postroom.enqueue(session, "b", {})
        async with engine.begin() as conn:
            await postroom.enqueue_async(conn, "b", {})
        await engine.dispose()

    asyncio.run(enqueue())
    assert database.rows("topic") == [("a",), ("b",)]


def test_asyncpg_through_sqlalchemy(on_postgres: Database) -> None:
    async def enqueue() -> None:
        engine = create_async_engine("postgresql+asyncpg" + on_postgres.url[on_postgres.url.index("://") :])
        async with AsyncSession(engine) as session, session.begin():
            await session.run_sync(postroom.create_once_table)
            key = Unique.within("k", 60).or_replace()
            first = await postroom.enqueue_async(session, "a", {}, unique=key, due_after=5, ttl=60, max_attempts=2)
            second = await postroom.enqueue_async(session, "a", {}, unique=key, due_at=DUE, headers={"a": "b"})
            assert second.replaced == first.message_id
            assert await postroom.once_async(session, MESSAGE) and not await postroom.once_async(session, MESSAGE)
        await engine.dispose()

    asyncio.run(enqueue())
    assert on_postgres.rows("state") == [(7,), (0,)]


def test_psycopg_with_asyncio(on_postgres: Database) -> None:
    async def enqueue() -> None:
        async with await psycopg.AsyncConnection.connect(on_postgres.url) as conn:
            key = Unique.while_waiting("k")
            first = await postroom.enqueue_async(conn, "a", {}, unique=key)
            second = await postroom.enqueue_async(conn, "a", {}, unique=key)
            assert second.kept_out_by == first.message_id
        async with await psycopg.AsyncConnection.connect(on_postgres.url, autocommit=True) as conn:
            with pytest.raises(NoTransaction):
                await postroom.enqueue_async(conn, "b", {})
            async with conn.transaction():
                await postroom.enqueue_async(conn, "b", {})

    asyncio.run(enqueue())
    assert on_postgres.rows("topic") == [("a",), ("b",)]


def test_psycopg_that_commits_by_itself_and_has_rows_as_dictionaries(on_postgres: Database) -> None:
    with psycopg.connect(on_postgres.url, autocommit=True, row_factory=dict_row) as conn:
        with pytest.raises(NoTransaction):
            postroom.enqueue(conn, "a", {})
        with conn.transaction():
            key = Unique.until_done("k").or_replace()
            first = postroom.enqueue(conn, "a", {}, unique=key)
            second = postroom.enqueue(conn, "a", {}, unique=key, tables=Tables(notify=False))
    assert second.replaced == first.message_id


def test_the_commit_wakes_unless_it_is_not_to(on_postgres: Database) -> None:
    with psycopg.connect(on_postgres.url, autocommit=True) as listener, psycopg.connect(on_postgres.url) as conn:
        listener.execute('LISTEN "postroom_infra.outbox"')
        postroom.enqueue(conn, "a", {}, tables=Tables(notify=False))
        conn.commit()
        conn.execute("NOTIFY \"postroom_infra.outbox\", 'nothing before'")
        postroom.enqueue(conn, "a", {})
        conn.commit()
        heard = [each.payload for each in listener.notifies(timeout=60, stop_after=2)]
    assert heard == ["nothing before", "outbox"]


def test_a_role_that_may_only_enqueue(on_postgres: Database) -> None:
    with psycopg.connect(on_postgres.url) as conn:
        role = f"r_{conn.info.dbname}"
        conn.execute(f"CREATE ROLE {role}")
        conn.execute(f"GRANT USAGE ON SCHEMA infra TO {role}")
        conn.execute(f"GRANT INSERT ON infra.outbox, infra.outbox_take TO {role}")
        conn.execute(f"SET LOCAL ROLE {role}")
        first = postroom.enqueue(conn, "a", {}, unique=Unique.while_waiting("k"))
        second = postroom.enqueue(conn, "a", {}, unique=Unique.while_waiting("k"))
        third = postroom.enqueue(conn, "a", {}, unique=Unique.while_waiting("k").or_replace())
        with pytest.raises(UniqueKeyTaken, match="another message has the same unique key") as refused:
            postroom.enqueue(conn, "a", {}, unique=Unique.while_waiting("k").or_refuse())
        conn.execute("RESET ROLE")
        conn.execute(f"DROP OWNED BY {role}")
        conn.execute(f"DROP ROLE {role}")
    assert first.duplicate is False and second.duplicate is True
    assert second.kept_out_by is None and third.replaced is None and refused.value.kept_out_by is None


@pytest.mark.parametrize("database", ["mysql"], indirect=True)
def test_pymysql_that_commits_by_itself_and_has_rows_as_dictionaries(database: Database) -> None:
    options: Any = {**mysql_options(database.url), "cursorclass": pymysql.cursors.DictCursor}
    with closing(pymysql.connect(**options, autocommit=True)) as conn:
        with pytest.raises(NoTransaction):
            postroom.enqueue(conn, "a", {})
        conn.begin()
        key = Unique.while_waiting("k").or_replace()
        first = postroom.enqueue(conn, "a", {}, unique=key)
        assert postroom.enqueue(conn, "a", {}, unique=key).replaced == first.message_id
        conn.commit()


@pytest.mark.parametrize("database", ["mysql"], indirect=True)
def test_a_user_of_mysql_who_may_only_enqueue(database: Database) -> None:
    options = mysql_options(database.url)
    user = options["database"]
    with closing(pymysql.connect(**options)) as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE USER {user}@localhost")
        for procedure in ["enqueue_with", "take"]:
            cursor.execute(f"GRANT EXECUTE ON PROCEDURE infra_outbox_{procedure} TO {user}@localhost")
        with closing(pymysql.connect(**{**options, "user": user})) as conn:
            key = Unique.while_waiting("k")
            told = [postroom.enqueue(conn, "a", {}, unique=each) for each in [key, key, key.or_replace()]]
            conn.commit()
        cursor.execute(f"DROP USER {user}@localhost")
    assert [each.duplicate for each in told] == [False, True, False]
    assert told[1].kept_out_by is None and told[2].replaced is None


def test_sqlite_that_commits_by_itself(binary: Path, tmp_path: Path) -> None:
    database = databases.sqlite(tmp_path)
    with closing(sqlite3.connect(database.url, isolation_level=None)) as conn:
        conn.row_factory = sqlite3.Row
        with pytest.raises(NoTransaction):
            postroom.enqueue(conn, "a", {})
        conn.execute("BEGIN IMMEDIATE")
        postroom.enqueue(conn, "a", {}, unique=Unique.while_waiting("k"))
        conn.execute("COMMIT")
        checkpoints = conn.execute("PRAGMA wal_autocheckpoint").fetchone()[0]
        assert checkpoints == (0 if sqlite3.sqlite_version_info < (3, 51, 3) else 1000)


def test_a_transaction_on_sqlite(binary: Path, tmp_path: Path) -> None:
    database = databases.sqlite(tmp_path)
    with postroom.sqlite.transaction(database.url) as conn:
        postroom.enqueue(conn, "a", {})
    with pytest.raises(ZeroDivisionError), postroom.sqlite.transaction(database.url) as conn:
        postroom.enqueue(conn, "b", {})
        1 / 0  # noqa: B018
    assert database.rows("topic") == [("a",)]


def test_once_is_part_of_the_transaction(database: Database) -> None:
    conn = database.connect()
    postroom.create_once_table(conn, table="handled")
    conn.commit()
    other = Message("id-1", "order.placed", {}, source="other ☃")

    def first(message: Message, handler: str = "") -> bool:
        return postroom.once(conn, message, handler=handler, table="handled")

    assert first(MESSAGE)
    conn.rollback()
    assert [first(MESSAGE), first(MESSAGE), first(other), first(MESSAGE, "second")] == [True, False, True, True]
    conn.commit()
    assert not first(MESSAGE)
    assert postroom.forget_handled(conn, 3600, table="handled") == 0
    assert postroom.forget_handled(conn, 0, table="handled") == 3
    conn.close()


def test_what_is_no_connection() -> None:
    with pytest.raises(UnknownConnection, match="a str is no connection that this package knows"):
        postroom.enqueue("shop.db", "a", {})
    with pytest.raises(UnknownConnection, match="no asynchronous connection"):
        asyncio.run(postroom.enqueue_async(sqlite3.Connection, "a", {}))
