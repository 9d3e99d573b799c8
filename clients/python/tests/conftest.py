"""Nodes and databases for the tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

from . import databases
from .databases import Database, MySql, Postgres
from .node import Node
from .paths import BINARY

StartNode = Callable[..., Node]


@pytest.fixture
def binary() -> Path:
    """The program, or a skip."""
    if not os.access(BINARY, os.X_OK):
        if os.environ.get("CI") == "true":
            pytest.fail(f"{BINARY} is no program, and CI=true")
        pytest.skip(f"{BINARY} is not built; POSTROOM_BIN may name another one")
    return BINARY


@pytest.fixture
def node(binary: Path, tmp_path: Path) -> Iterator[StartNode]:
    """Starts nodes, each in a folder of its own, and ends them after the test."""
    started: List[Node] = []

    def start(more: str = "", **options: Any) -> Node:
        folder = tmp_path / f"node-{len(started)}"
        folder.mkdir()
        made = Node(folder, more, **options)
        started.append(made)
        return made.start()

    yield start
    for each in started:
        each.kill()


def _is_on(item: pytest.Item, kind: str) -> bool:
    return getattr(getattr(item, "callspec", None), "params", {}).get("database") == kind


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    """Those on MySQL come last: their databases are being prepared meanwhile."""
    items.sort(key=lambda item: _is_on(item, "mysql"))


@pytest.fixture(scope="session")
def mysql(request: pytest.FixtureRequest) -> Iterator[MySql]:
    can = bool(os.environ.get(databases.MYSQL)) and os.access(BINARY, os.X_OK)
    made = MySql(sum(_is_on(item, "mysql") for item in request.session.items) if can else 0)
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    made = Postgres()
    yield made
    made.close()


@pytest.fixture
def on_postgres(binary: Path, postgres: Postgres) -> Iterator[Database]:
    """An empty database on PostgreSQL."""
    with postgres.database() as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def _ahead(mysql: MySql) -> None:
    """Begins at once."""


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def database(
    request: pytest.FixtureRequest, binary: Path, tmp_path: Path, postgres: Postgres, mysql: MySql
) -> Iterator[Database]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield databases.sqlite(tmp_path)
    elif request.param == "postgres":
        with postgres.database() as made:
            yield made
    else:
        databases.url_of(databases.MYSQL)
        with mysql.database() as made:
            yield made
