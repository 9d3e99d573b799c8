"""Runs plans on connections, with and without asyncio."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, Sequence, Tuple, TypeVar

from ..errors import UnknownConnection
from .drivers import known, packages, sqlalchemy_connection
from .statement import Plan, Result, Statement

T = TypeVar("T")

# MySQL's numbers for a duplicate, and for tables that the user may not read.
_TAKEN, _DENIED = (1062,), (1142, 1143)


def run(conn: Any, plan: Plan[T]) -> T:
    """Runs a plan on a connection of the DB-API or of SQLAlchemy."""
    execute = _by_sqlalchemy(conn) if "sqlalchemy" in packages(conn) else _by_driver(conn)
    try:
        statement = next(plan)
        while True:
            try:
                result = execute(statement)
            except Exception as error:
                result = _meant(statement, error)
            statement = plan.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def run_async(conn: Any, plan: Callable[[], Plan[T]], sync: Callable[[Any], T]) -> T:
    """Runs a plan on an `AsyncConnection` of psycopg, or `sync` on what is inside an object of SQLAlchemy."""
    if "sqlalchemy" in packages(conn) and hasattr(conn, "run_sync"):
        return await conn.run_sync(sync)  # type: ignore[no-any-return]
    if "psycopg" not in packages(conn) or not type(conn).__name__.startswith("Async"):
        wanted = "use an AsyncSession or AsyncConnection of SQLAlchemy, or an AsyncConnection of psycopg"
        raise UnknownConnection(f"a {type(conn).__name__} is no asynchronous connection; {wanted}")
    steps = plan()
    try:
        statement = next(steps)
        while True:
            async with conn.cursor(**_plain(conn)) as cursor:
                await cursor.execute(*statement.render("pyformat"))
                rows = await cursor.fetchall() if cursor.description else []
                result = Result(cursor.rowcount, _tuples(rows))
            statement = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _by_driver(conn: Any) -> Callable[[Statement], Result]:
    _, paramstyle = known(conn)

    def execute(statement: Statement) -> Result:
        cursor = conn.cursor(**_plain(conn))
        try:
            cursor.execute(*statement.render(paramstyle))
            rows = cursor.fetchall() if cursor.description else []
            return Result(cursor.rowcount, _tuples(rows))
        finally:
            cursor.close()

    return execute


def _plain(conn: Any) -> Mapping[str, Any]:
    """Asks for rows as tuples, whatever the connection makes of them."""
    if "psycopg" in packages(conn):
        from psycopg.rows import tuple_row

        return {"row_factory": tuple_row}
    if "pymysql" in packages(conn):
        from pymysql.cursors import Cursor

        return {"cursor": Cursor}
    return {}


def _tuples(rows: Sequence[Any]) -> List[Tuple[Any, ...]]:
    return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]


def _by_sqlalchemy(conn: Any) -> Callable[[Statement], Result]:
    from sqlalchemy import text

    inner = sqlalchemy_connection(conn)

    def execute(statement: Statement) -> Result:
        done = inner.execute(text(statement.render("named")[0]), dict(statement.values))
        rows = [tuple(row) for row in done] if done.returns_rows else []
        return Result(done.rowcount, rows)

    return execute


def _meant(statement: Statement, error: Exception) -> Result:
    """What an error of the database means for this statement. Most are raised."""
    cause: Any = getattr(error, "orig", None) or error
    number = getattr(cause, "errno", None) or next(iter(cause.args), None)
    if statement.may_be_taken and number in _TAKEN:
        return Result(taken=str(cause))
    if statement.may_be_denied and number in _DENIED:
        return Result()
    raise error
