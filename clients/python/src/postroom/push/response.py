"""What a receiver answers to a node."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

ANSWER_MAX = 64 * 1024
REASON_MAX = 2000


@dataclass(frozen=True)
class Response:
    """What to answer."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)


def text(status: int, why: str, headers: Optional[Mapping[str, str]] = None) -> Response:
    """A status with a reason. The node keeps 2,000 characters of it."""
    body = why[:REASON_MAX].encode(errors="replace")
    return Response(status, {"content-type": "text/plain; charset=utf-8", **(headers or {})}, body)


def done(answer: Any) -> Response:
    """The message is done. If the answer cannot be sent, the message is dead: a retry would repeat its work."""
    if answer is None:
        return Response(204)
    try:
        body = json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return text(422, f"the handler is done, and its answer cannot be written as JSON: {type(error).__name__}")
    if len(body) > ANSWER_MAX:
        return text(422, f"the handler is done, and its answer has {len(body)} bytes; at most {ANSWER_MAX} are allowed")
    return Response(200, {"content-type": "application/json"}, body)
