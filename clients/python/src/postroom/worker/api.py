"""The node's pull interface."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ..errors import NoAnswer, Refused
from ..http.pool import Interrupt
from ..http.problem import parsed, refusal, refusal_of
from ..http.session import Session, dumped
from ..http.status import moment
from ..received import Message, Stop
from .held import Held

ANSWER_MAX = 64 * 1024
ERROR_CHARS_MAX = 4000


@dataclass(frozen=True)
class Settle:
    """How a message ends: `verb` is ack, abandon or fail, `item` is what the API wants to know, as JSON."""

    held: Held
    verb: str
    item: str = field(repr=False)


class Result(NamedTuple):
    """What became of one message."""

    problem: Optional[Refused]
    asked_to_stop: bool = False


class Pull:
    """Claims and settles messages. Each call is sent once."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def claim(
        self, queue: str, topics: Optional[Sequence[str]], limit: int, lease: int, wait: int, interrupt: Interrupt
    ) -> List[Held]:
        """Claims messages; waits for the first one."""
        asked: Dict[str, Any] = {"limit": limit, "leaseSeconds": lease, "waitSeconds": wait}
        if topics is not None:
            asked["topics"] = topics
        answer = self._session.send("POST", f"/v1/{queue}/claim", dumped(asked), longer=wait, interrupt=interrupt)
        told = parsed(answer)
        if answer.status != 200 or not isinstance(told, dict):
            raise refusal(answer)
        until = time.monotonic() + lease
        try:
            return [_held(queue, each, until) for each in told["messages"]]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise NoAnswer("the answer is not that of a node") from None

    def settle(self, queue: str, verb: str, items: Sequence[str]) -> List[Result]:
        """Settles messages, or extends their leases."""
        answer = self._session.send("POST", f"/v1/{queue}/{verb}", f'{{"items": [{", ".join(items)}]}}')
        told = parsed(answer)
        results = told.get("results") if isinstance(told, dict) else None
        results = results if isinstance(results, list) else None
        statuses = [_status(each) for each in results or ()]
        if results is None or len(statuses) != len(items) or 0 in statuses:
            raise refusal(answer) if answer.status != 200 else NoAnswer("the answer is not that of a node")
        return [
            Result(None if status == 200 else refusal_of(status, each), each.get("askedToStop") is True)
            for status, each in zip(statuses, results)
        ]


def _status(result: Any) -> int:
    status = result.get("status") if isinstance(result, dict) else None
    return status if isinstance(status, int) else 0


def _held(queue: str, told: Mapping[str, Any], until: float) -> Held:
    stop = Stop()
    is_json = "payload" in told
    message = Message(
        message_id=str(told["messageId"]),
        topic=str(told["topic"]),
        payload=told["payload"] if is_json else told.get("payloadText", ""),
        attempt=int(told["attempt"]),
        source=told.get("source"),
        kind=told.get("kind"),
        correlation_id=told.get("correlationId"),
        lane=told.get("lane"),
        headers=told.get("headers") or {},
        created_at=moment(told.get("createdAt")),
        is_json=is_json,
        _stop=stop,
    )
    return Held(queue, str(told["lease"]), message, stop, until)


def ack(held: Held, answer: Any) -> Settle:
    """The message is done. If the answer cannot be sent, the message is dead: a retry would repeat its work."""
    try:
        text = None if answer is None else dumped(answer)
        size = 0 if text is None else len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        return fail(held, f"the handler is done, and its answer cannot be written as JSON: {type(error).__name__}")
    if size > ANSWER_MAX:
        return fail(held, f"the handler is done, and its answer has {size} bytes; at most {ANSWER_MAX} are allowed")
    lease = json.dumps(held.lease)
    return Settle(held, "ack", f'{{"lease": {lease}}}' if text is None else f'{{"lease": {lease}, "answer": {text}}}')


def abandon(held: Held, error: str, after: Optional[int] = None) -> Settle:
    """The message is to be retried."""
    more = {} if after is None else {"delaySeconds": after}
    return Settle(held, "abandon", json.dumps({"lease": held.lease, "error": _error(error), **more}))


def fail(held: Held, error: str) -> Settle:
    """The message is dead."""
    return Settle(held, "fail", json.dumps({"lease": held.lease, "error": _error(error)}))


def _error(text: str) -> str:
    return text[:ERROR_CHARS_MAX].encode(errors="replace").decode()


def extend(held: Held, lease: int) -> str:
    """The message stays leased for so many seconds."""
    return json.dumps({"lease": held.lease, "leaseSeconds": lease})
