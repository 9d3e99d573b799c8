"""Reads what a node says when it refuses something."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Dict, List, Type

from ..errors import Conflict, FieldError, NotAllowed, NotFound, Refused, Unavailable
from .pool import Answer

_DIGITS_MAX = 4000
_KINDS: Dict[int, Type[Refused]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    422: Conflict,
    425: Unavailable,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def refusal(answer: Answer) -> Refused:
    """The error for an answer that is no success: problem details, as RFC 9457 has them.

    >>> refusal(Answer(404, {}, b'{"title": "Not Found", "detail": "no message has this id", "advice": "check the id"}'))
    NotFound('404: no message has this id (try: check the id)')
    """
    return refusal_of(answer.status, parsed(answer))


def refusal_of(status: int, told: Any) -> Refused:
    """The error for a status and the JSON that came with it."""
    told = told if isinstance(told, dict) else {}
    detail = _text(told, "detail") or _text(told, "title") or "the request was refused"
    fields: List[FieldError] = []
    for each in told.get("errors") or ():
        if isinstance(each, dict):
            fields.append(FieldError(_text(each, "field"), _text(each, "detail")))
    kind = _KINDS.get(status, Refused)
    return kind(status, detail, advice=_text(told, "advice"), fields=fields, kept_out_by=_text(told, "keptOutBy"))


def parsed(answer: Answer) -> Any:
    """The JSON of an answer; None if it is none."""
    try:
        return json.loads(answer.body, parse_int=_whole)
    except (ValueError, RecursionError):
        return None


def _whole(digits: str) -> Any:
    # Python refuses to read whole numbers with thousands of digits.
    return int(digits) if len(digits) <= _DIGITS_MAX else Decimal(digits)


def _text(told: Dict[str, Any], name: str) -> str:
    value = told.get(name)
    return value if isinstance(value, str) else ""
