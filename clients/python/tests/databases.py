"""A database of its own for each test, on every kind of server that there is."""

from __future__ import annotations

import os
import uuid
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List
from urllib.parse import parse_qs, urlsplit

import psycopg
import pymysql
import pytest

import postroom

from .node import PATIENCE, migrate

POSTGRES, MYSQL = "POSTROOM_TEST_POSTGRES_URL", "POSTROOM_TEST_MYSQL_URL"


def url_of(variable: str) -> str:
    url = os.environ.get(variable)
    if url:
        return url
    if os.environ.get("CI") == "true":
        pytest.fail(f"{variable} names no server, and CI=true")
    pytest.skip(f"{variable} names no server")


def named(url: str, database: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/{database}?{parts.query}"


class Database:
    """One database with the tables of Postroom. `connect` opens a connection that begins transactions by itself."""

    def __init__(self, kind: str, url: str, connect: Callable[[], Any], outbox: str) -> None:
        self.kind, self.url, self.connect, self.outbox = kind, url, connect, outbox

    def rows(self, columns: str, where: str = "1 = 1") -> List[Any]:
        """What is in the outbox, read by another connection."""
        conn = self.connect()
        try:
            cursor = conn.cursor()
            cursor.execute(f"SELECT {columns} FROM {self.outbox}_state WHERE {where} ORDER BY seq")
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            conn.close()


def sqlite(folder: Path) -> Database:
    path = folder / "shop.db"
    migrate(str(path))
    return Database("sqlite", str(path), lambda: postroom.sqlite.connect(path), "outbox_messages")


class Postgres:
    """Databases on the server: copies of one in which the tables were deployed."""

    def __init__(self) -> None:
        self._template = ""

    @contextmanager
    def database(self) -> Iterator[Database]:
        admin, name = url_of(POSTGRES), f"pr_python_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(admin, autocommit=True) as conn:
            if not self._template:
                self._template = f"{name}_template"
                conn.execute(f"CREATE DATABASE {self._template}")
                migrate(named(admin, self._template))
            conn.execute(f"CREATE DATABASE {name} TEMPLATE {self._template}")
            url = named(admin, name)
            try:
                yield Database("postgres", url, lambda: psycopg.connect(url), "infra.outbox")
            finally:
                conn.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        if self._template:
            with psycopg.connect(url_of(POSTGRES), autocommit=True) as conn:
                conn.execute(f"DROP DATABASE {self._template} WITH (FORCE)")


def mysql_options(url: str) -> Dict[str, Any]:
    parts = urlsplit(url)
    socket = parse_qs(parts.query).get("socket")
    return {
        "user": parts.username,
        "password": parts.password or "",
        "database": parts.path.strip("/"),
        "charset": "utf8mb4",
        **({"unix_socket": socket[0]} if socket else {"host": parts.hostname, "port": parts.port or 3306}),
    }


class MySql:
    """Databases on the server. To deploy the tables takes two seconds, so it is done ahead, while other tests run."""

    def __init__(self, count: int) -> None:
        self._workers = ThreadPoolExecutor(3)
        self._made = deque(self._workers.submit(self._make) for _ in range(count))
        self._dropped: List["Future[None]"] = []

    @contextmanager
    def database(self) -> Iterator[Database]:
        name = self._made.popleft().result(PATIENCE)
        url = named(url_of(MYSQL), name)
        try:
            yield Database("mysql", url, lambda: pymysql.connect(**mysql_options(url)), "infra_outbox")
        finally:
            self._dropped.append(self._workers.submit(self._run, f"DROP DATABASE {name}"))

    def close(self) -> None:
        for made in self._made:
            self._run(f"DROP DATABASE {made.result(PATIENCE)}")
        for dropped in self._dropped:
            dropped.result(PATIENCE)
        self._workers.shutdown()

    def _make(self) -> str:
        name = f"pr_python_{uuid.uuid4().hex[:12]}"
        self._run(f"CREATE DATABASE {name}")
        migrate(named(os.environ[MYSQL], name))
        return name

    def _run(self, statement: str) -> None:
        conn = pymysql.connect(**{**mysql_options(os.environ[MYSQL]), "database": None})
        try:
            with conn.cursor() as cursor:
                cursor.execute(statement)
        finally:
            conn.close()
