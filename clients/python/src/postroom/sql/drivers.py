"""Recognises connections."""

from __future__ import annotations

from typing import Any, List, Tuple

from ..errors import NoTransaction, UnknownConnection

# By the package of the connection's class: the kind of database, and how the driver writes placeholders.
_DRIVERS = {
    "sqlite3": ("sqlite", "qmark"),
    "pysqlite3": ("sqlite", "qmark"),
    "psycopg": ("postgres", "pyformat"),
    "psycopg2": ("postgres", "pyformat"),
    "pg8000": ("postgres", "format"),
    "pymysql": ("mysql", "format"),
    "MySQLdb": ("mysql", "format"),
    "mysql": ("mysql", "format"),
    "mariadb": ("mysql", "qmark"),
}
_DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
_SQLALCHEMY = ("Session", "scoped_session", "Connection", "AsyncSession", "AsyncConnection", "async_scoped_session")
# What the drivers say about a connection outside of a transaction, and inside of one.
_PSYCOPG_IDLE = 0
_MYSQL_IN_TRANSACTION = 1


def packages(conn: object) -> List[str]:
    """The packages of the object's class and of those that it is made from."""
    return [each.__module__.split(".")[0].lstrip("_") for each in type(conn).__mro__]


def known(conn: object) -> Tuple[str, str]:
    """The kind of database, and how the driver writes placeholders."""
    for package in packages(conn):
        if package in _DRIVERS:
            return _DRIVERS[package]
        if package == "sqlalchemy":
            dialect = sqlalchemy_connection(conn).dialect.name
            if dialect in _DIALECTS:
                return _DIALECTS[dialect], "named"
            raise UnknownConnection(f"the database is {dialect}; use SQLite, PostgreSQL, MySQL or MariaDB")
    raise UnknownConnection(
        f"a {type(conn).__name__} is no connection that this package knows; use one of sqlite3, psycopg, psycopg2, "
        "pg8000, pymysql, mysqlclient, mysql-connector, mariadb or SQLAlchemy"
    )


def sqlalchemy_connection(conn: Any) -> Any:
    """The connection of a session of SQLAlchemy; a connection is its own."""
    kind = next((each.__name__ for each in type(conn).__mro__ if each.__name__ in _SQLALCHEMY), "")
    if kind in ("Session", "scoped_session"):
        return conn.connection()
    if kind == "Connection":
        return conn
    if kind:
        raise UnknownConnection(f"this is a {kind}; use the function that ends with _async")
    raise UnknownConnection(f"a {type(conn).__name__} of SQLAlchemy is no connection; use a Session or a Connection")


def check_transaction(conn: Any) -> None:
    """Refuses a connection that would commit the message by itself."""
    if "sqlalchemy" in packages(conn):
        conn = getattr(sqlalchemy_connection(conn).connection, "dbapi_connection", None)
    if _commits_by_itself(conn):
        raise NoTransaction("the connection commits each statement by itself; begin a transaction first")


def _commits_by_itself(conn: Any) -> bool:
    package = next((each for each in packages(conn) if each in _DRIVERS), "")
    if package in ("sqlite3", "pysqlite3"):
        # Before Python 3.12 there is only the level: without one, Python begins nothing.
        autocommit = getattr(conn, "autocommit", -1)
        is_auto = autocommit is True or (autocommit == -1 and conn.isolation_level is None)
        return bool(is_auto and not conn.in_transaction)
    if package in ("psycopg", "psycopg2"):
        return bool(conn.autocommit and conn.info.transaction_status == _PSYCOPG_IDLE)
    if package == "pymysql":
        return bool(conn.get_autocommit() and not conn.server_status & _MYSQL_IN_TRANSACTION)
    return False
