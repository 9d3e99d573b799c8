"""Enqueues on MySQL and MariaDB: calls the procedure `infra_outbox_enqueue_with`."""

from __future__ import annotations

from typing import Dict, Optional, Union
from uuid import UUID

from ..checks import seconds
from ..ids import row_id
from ..message import Enqueued, NewMessage
from .statement import Plan, Statement, Value
from .tables import Tables
from .values import headers_text, kept_out, time_text

# The words of the procedure that takes a key. The same error means that another message has it.
STORED = "stored already"


def plan(message: NewMessage, tables: Tables) -> Plan[Enqueued]:
    """The statements that enqueue a message."""
    outbox = tables.outbox_in("mysql")
    replaced = None
    if message.unique:
        taken = yield from _take(message, outbox)
        if isinstance(taken, Enqueued):
            return taken
        replaced = taken
    values: Dict[str, Value] = {
        "topic": message.topic,
        "payload": message.text,
        "destination": message.destination,
        "message_id": str(message.id),
        "headers": headers_text(message),
        "correlation_id": message.correlation_id,
        "kind": message.kind,
        "ttl": seconds(message.lives),
        "max_attempts": message.max_attempts,
        "lane": message.lane,
    }
    due = "NULL"
    if message.due.at is not None:
        due, values["due"] = "{due}", time_text(message.due.at)
    elif message.due.after is not None:
        due, values["due"] = "UTC_TIMESTAMP(6) + INTERVAL {due} MICROSECOND", message.due.after
    yield Statement(
        f"CALL {outbox}_enqueue_with({{topic}}, {{payload}}, {{destination}}, {{message_id}}, {{headers}},"
        f" {{correlation_id}}, {due}, {{kind}}, {{ttl}}, {{max_attempts}}, {{lane}})",
        values,
    )
    is_ours = message.message_id is None or message.unique is not None
    return Enqueued(str(message.id), duplicate=False if is_ours else None, replaced=replaced)


def _take(message: NewMessage, outbox: str) -> Plan[Union[Enqueued, Optional[str]]]:
    """Takes the unique key: the id of the message that was replaced, if any; `Enqueued` if it is not to be stored."""
    assert message.unique is not None
    unique, row = message.unique, row_id(message.id, message.destination)
    now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    taken = yield Statement(
        f"CALL {outbox}_take({{name}}, UNHEX({{id}}), {now} + {{span}}, {{done}}, {{replaces}}, NULL, NULL)",
        {
            "name": unique.key,
            "id": row.hex,
            "span": unique.span,
            "done": int(unique.until == "done"),
            "replaces": int(unique.if_taken == "replace"),
        },
        may_be_taken=True,
    )
    if taken.taken is None:
        if unique.if_taken != "replace":
            return None
        return (yield from _ask(outbox, "replaced", unique.key))
    if STORED in taken.taken:
        return Enqueued(str(message.id), duplicate=True)
    return kept_out(message, unique, (yield from _ask(outbox, "id", unique.key)))


def _ask(outbox: str, column: str, key: str) -> Plan[Optional[str]]:
    """A column of the key's row, for those who may read it."""
    text = f"SELECT HEX({column}) FROM {outbox}_unique WHERE name = CAST({{name}} AS BINARY) LOCK IN SHARE MODE"
    found = yield Statement(text, {"name": key}, may_be_denied=True)
    return str(UUID(str(found.value))) if found.value else None
