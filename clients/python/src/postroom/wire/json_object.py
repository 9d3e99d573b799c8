"""Reads a JSON object strictly, and keeps the text of each of its fields."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Tuple

_BLANK = re.compile(r"[ \t\n\r]*")


class MalformedEnvelope(ValueError):
    """The body is no envelope. The text quotes nothing of it."""


def fields_of(body: bytes) -> Dict[str, Tuple[Any, str]]:
    """The fields of an object: for each its value, and its text as it was sent. No field may appear twice.

    >>> fields_of(b'{"a": 1.0 }')
    {'a': (1.0, '1.0')}
    """
    try:
        text = body.decode()
        at = _skip(text, 0)
        if text[at : at + 1] != "{":
            raise MalformedEnvelope("the envelope must be a JSON object")
        return _fields(text, at + 1)
    except (ValueError, RecursionError, IndexError) as error:
        if isinstance(error, MalformedEnvelope):
            raise
        raise MalformedEnvelope("the envelope is no JSON") from None


def _fields(text: str, at: int) -> Dict[str, Tuple[Any, str]]:
    found: Dict[str, Tuple[Any, str]] = {}
    at = _skip(text, at)
    while text[at] != "}":
        if found:
            at = _skip(text, _expect(text, at, ","))
        _expect(text, at, '"')
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _expect(text, _skip(text, at), ":"))
        value, end = _DECODER.raw_decode(text, at)
        if name in found:
            raise MalformedEnvelope("the envelope has a field twice")
        found[name] = (value, text[at:end])
        at = _skip(text, end)
    if _skip(text, at + 1) != len(text):
        raise MalformedEnvelope("something follows the envelope")
    return found


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _expect(text: str, at: int, sign: str) -> int:
    if text[at] != sign:
        raise MalformedEnvelope("the envelope is no JSON")
    return at + 1


def _no_constant(_: str) -> Any:
    raise MalformedEnvelope("the envelope is no JSON")


# Python refuses to read whole numbers with thousands of digits.
_DECODER = json.JSONDecoder(parse_int=float, parse_constant=_no_constant)
