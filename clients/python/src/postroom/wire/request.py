"""Reads the signed headers of a request, strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Iterable, List, Mapping, Tuple, Union

from .signing import Head

Headers = Union[Mapping[str, str], Iterable[Tuple[str, str]]]

_SERVICE = r"[a-z0-9][a-z0-9._-]{0,63}"
_UUID = r"(?!0{8}-0{4}-0{4}-0{4}-0{12})[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TIME = r"0|-?[1-9][0-9]{0,18}"
_ASCII = r"[\t -~]*"
_GRAMMAR = {
    "rf-version": "2",
    "rf-source": _SERVICE,
    "rf-destination": _SERVICE,
    "rf-message-id": _UUID,
    "rf-enqueued-at": _TIME,
    "rf-attempt": r"0|[1-9][0-9]{0,9}",
    "rf-timestamp": _TIME,
    "rf-content-sha256": "[0-9a-f]{64}",
    "content-type": _ASCII,
    "rf-signature": _ASCII,
}
_TIME_MIN, _TIME_MAX, _ATTEMPT_MAX = -(2**63), 2**63 - 1, 2**32 - 1


class MalformedHeader(ValueError):
    """A header is missing, appears twice or is not well-formed."""


@dataclass(frozen=True)
class Signed:
    """The signed headers of a request."""

    head: Head
    signature: str
    enqueued_at: int
    due_at: int
    timestamp: int


def by_name(headers: Headers) -> Dict[str, List[str]]:
    """All values of each header, by its name in lower case."""
    given: Dict[str, List[str]] = {}
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        given.setdefault(name.lower(), []).append(value)
    return given


def read(method: str, path: str, given: Mapping[str, List[str]]) -> Signed:
    """Reads them. Each must be there once and be well-formed."""
    grammar = {**_GRAMMAR, **({"rf-due-at": _TIME} if "rf-due-at" in given else {})}
    for name, form in grammar.items():
        values = given.get(name, [])
        if len(values) != 1 or not re.fullmatch(form, values[0]):
            raise MalformedHeader(f"the header {name} is missing or not valid")
    one = {name: given[name][0] for name in grammar}
    times = {name: int(one[name]) for name in grammar if grammar[name] == _TIME}
    if int(one["rf-attempt"]) > _ATTEMPT_MAX or not all(_TIME_MIN <= at <= _TIME_MAX for at in times.values()):
        raise MalformedHeader("the header of a time or of the attempt is too large")
    head = Head(
        source=one["rf-source"],
        destination=one["rf-destination"],
        method=method,
        path=path,
        message_id=one["rf-message-id"],
        enqueued_at=one["rf-enqueued-at"],
        due_at=one.get("rf-due-at", ""),
        attempt=one["rf-attempt"],
        timestamp=one["rf-timestamp"],
        content_type=one["content-type"],
        digest=bytes.fromhex(one["rf-content-sha256"]),
    )
    enqueued_at = times["rf-enqueued-at"]
    return Signed(head, one["rf-signature"], enqueued_at, times.get("rf-due-at", enqueued_at), times["rf-timestamp"])
