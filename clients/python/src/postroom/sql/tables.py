"""The names of the tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

from ..errors import InvalidMessage

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_DEFAULTS = {"sqlite": (None, "outbox_messages"), "postgres": ("infra", "outbox"), "mysql": (None, "infra_outbox")}


@dataclass(frozen=True)
class Tables:
    """Where the outbox is, if it is not where `postroom migrate` puts it.

    `schema` is a schema of PostgreSQL or a database of MySQL. With `notify=False` the commit does not wake workers on
    PostgreSQL, which find the message within half a second: for many thousands of messages in a second.

    >>> Tables(outbox="orders_outbox").outbox_in("sqlite")
    'orders_outbox'
    """

    outbox: Optional[str] = None
    schema: Optional[str] = None
    notify: bool = True

    def __post_init__(self) -> None:
        for field, name in [("outbox", self.outbox), ("schema", self.schema)]:
            if name is not None and not _NAME.fullmatch(name):
                allowed = "use a letter or _, then letters, digits and _, at most 48 characters"
                raise InvalidMessage(f"tables: {field}", "is no name of a table", allowed)

    def outbox_in(self, dialect: str) -> str:
        """The name of the outbox's table on this kind of database."""
        schema, outbox = _DEFAULTS[dialect]
        schema, outbox = self.schema or schema, self.outbox or outbox
        return f"{schema}.{outbox}" if schema else outbox
