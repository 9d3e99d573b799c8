"""One statement with its values, for every way in which drivers write placeholders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Generator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

Value = Union[str, int, bytes, bool, None]
Parameters = Union[Dict[str, Value], List[Value]]


@dataclass(frozen=True)
class Statement:
    """SQL in which `{name}` stands for a value. Values are bound, never written into the text."""

    text: str
    values: Mapping[str, Value] = field(default_factory=dict, repr=False)
    may_be_taken: bool = False
    """Whether the error of a duplicate is an answer (`Result.taken`)."""
    may_be_denied: bool = False
    """Whether it may fail because the user may not read the table. It then has no rows."""

    def render(self, paramstyle: str) -> Tuple[str, Parameters]:
        """The text and the values, in a paramstyle of the DB-API.

        >>> Statement("SELECT {a}, {b}, {a}", {"a": 1, "b": 2}).render("qmark")
        ('SELECT ?, ?, ?', [1, 2, 1])
        >>> Statement("SELECT {a}", {"a": 1}).render("pyformat")
        ('SELECT %(a)s', {'a': 1})
        """
        if paramstyle in _NAMED:
            write = _NAMED[paramstyle]
            return self.text.format_map({name: write.format(name) for name in self.values}), dict(self.values)
        bound: List[Value] = []
        return self.text.format_map(_InOrder(self.values, paramstyle, bound)), bound


_NAMED = {"pyformat": "%({})s", "named": ":{}"}
_BY_PLACE = {"qmark": "?", "format": "%s"}


class _InOrder(Dict[str, str]):
    """Notes each value when its placeholder is written."""

    def __init__(self, values: Mapping[str, Value], paramstyle: str, bound: List[Value]) -> None:
        super().__init__()
        self._values, self._style, self._bound = values, paramstyle, bound

    def __missing__(self, name: str) -> str:
        self._bound.append(self._values[name])
        return _BY_PLACE[self._style] if self._style in _BY_PLACE else f":{len(self._bound)}"


@dataclass(frozen=True)
class Result:
    """What a statement gave."""

    count: int = 0
    rows: Sequence[Tuple[Any, ...]] = ()
    taken: Optional[str] = None
    """The words of the error, if it was that of a duplicate."""

    @property
    def value(self) -> Any:
        """The first value of the first row."""
        return self.rows[0][0] if self.rows else None


T = TypeVar("T")
Plan = Generator[Statement, Result, T]
"""Statements that depend on what the ones before gave. It knows no driver, and runs with and without asyncio."""
