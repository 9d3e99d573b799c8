"""Enqueues on PostgreSQL: calls the function `outbox_enqueue`."""

from __future__ import annotations

from typing import Dict, List, Optional, Union
from uuid import UUID

from ..ids import row_id
from ..message import Enqueued, NewMessage
from .statement import Plan, Statement, Value
from .tables import Tables
from .values import headers_text, kept_out, time_text

NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


def plan(message: NewMessage, tables: Tables) -> Plan[Enqueued]:
    """The statements that enqueue a message."""
    outbox = tables.outbox_in("postgres")
    replaced = None
    if message.unique:
        taken = yield from _take(message, outbox)
        if isinstance(taken, Enqueued):
            return taken
        replaced = taken
    # Every type is written down: drivers send texts without one, and the function takes several.
    texts: Dict[str, Optional[str]] = {
        "topic": message.topic,
        "payload": message.text,
        "destination": message.destination,
        "headers": headers_text(message),
        "correlation_id": message.correlation_id,
        "kind": message.kind,
        "lane": message.lane,
    }
    values: Dict[str, Value] = {name: text for name, text in texts.items() if text is not None}
    given: List[str] = [f"{name} => CAST({{{name}}} AS text)" for name in values]

    def give(name: str, expression: str, value: Value) -> None:
        given.append(f"{name} => {expression}")
        values[name] = value

    give("message_id", "CAST({message_id} AS uuid)", str(message.id))
    if message.due.at is not None:
        give("due_at", "CAST(CAST({due_at} AS text) AS timestamptz)", time_text(message.due.at) + "+00")
    elif message.due.after is not None:
        give("due_at", f"clock_timestamp() + {_interval('due_at')}", message.due.after)
    if message.lives is not None:
        give("ttl", _interval("ttl"), message.lives)
    if message.max_attempts is not None:
        give("max_attempts", "CAST({max_attempts} AS integer)", message.max_attempts)
    if not tables.notify:
        given.append("notify => false")
    yield Statement(f"SELECT {outbox}_enqueue({', '.join(given)})", values)
    is_ours = message.message_id is None or message.unique is not None
    return Enqueued(str(message.id), duplicate=False if is_ours else None, replaced=replaced)


def _interval(name: str) -> str:
    return f"CAST({{{name}}} AS double precision) * interval '1 microsecond'"


def _take(message: NewMessage, outbox: str) -> Plan[Union[Enqueued, Optional[str]]]:
    """Takes the unique key: the id of the message that was replaced, if any; `Enqueued` if it is not to be stored."""
    assert message.unique is not None
    unique, row = message.unique, row_id(message.id, message.destination)
    taken = yield Statement(
        f"INSERT INTO {outbox}_take (name, id, until, until_done, replaces) VALUES (CAST({{name}} AS text),"
        f" CAST({{id}} AS uuid), {NOW} + CAST({{span}} AS bigint), CAST({{done}} AS integer) = 1,"
        " CAST({replaces} AS integer) = 1)",
        {
            "name": unique.key,
            "id": str(row),
            "span": unique.span,
            "done": int(unique.until == "done"),
            "replaces": int(unique.if_taken == "replace"),
        },
    )
    if taken.count:
        if unique.if_taken != "replace":
            return None
        return (yield from _ask(outbox, "replaced", unique.key))
    if message.message_id is not None and (yield from _is_stored(outbox, row)):
        return Enqueued(str(message.id), duplicate=True)
    return kept_out(message, unique, (yield from _ask(outbox, "id", unique.key)))


def _ask(outbox: str, column: str, key: str) -> Plan[Optional[str]]:
    """A column of the key's row, for those who may read it. A refusal would end the transaction."""
    may = yield _may_read(f"{outbox}_unique")
    if not may.value:
        return None
    text = f"SELECT CAST({column} AS text) FROM {outbox}_unique WHERE name = CAST({{name}} AS text)"
    found = yield Statement(text, {"name": key})
    return None if found.value is None else str(found.value)


def _is_stored(outbox: str, row: UUID) -> Plan[bool]:
    may = yield _may_read(outbox)
    if not may.value:
        return False
    text = f"SELECT 1 FROM {outbox} WHERE id = CAST({{id}} AS uuid)"
    return bool((yield Statement(text, {"id": str(row)})).rows)


def _may_read(table: str) -> Statement:
    return Statement("SELECT has_table_privilege(CAST({table} AS text), 'SELECT')", {"table": table})
