"""The sender's side of the wire: signs a message, sends it, and verifies the receipt."""

from __future__ import annotations

import hashlib
import json
import ssl
import time
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterable, Mapping, Optional, Union
from urllib.parse import urlsplit
from uuid import UUID

from ..checks import headers as check_headers
from ..checks import name as check_name
from ..checks import service as check_service
from ..errors import InvalidMessage, PostroomError
from ..http.address import Address
from ..http.pool import Answer, Pool
from ..http.retry import retry_after
from ..ids import new_id, parse_id
from ..message import NewMessage
from .envelope import KINDS, LANE, Envelope, is_endpoint
from .keys import Key
from .signing import Head, ReceiptHead

PATH = "/_rf/receive"
# With a receipt, these make a message dead at once.
_FOR_GOOD = (400, 410, 413, 422)


@dataclass(frozen=True, repr=False)
class Outgoing:
    """A message to another service. Make it once, and send it as often as needed: its id and its time stay the same.

    `enqueued_at` is when it was created, in microseconds since 1970. Never renew it: the receiver decides by it whether
    it may have forgotten the message already.
    """

    endpoint: str
    payload: Any
    kind: str = "Signal"
    correlation_id: Optional[str] = None
    lane: Optional[str] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    message_id: Union[UUID, str] = field(default_factory=new_id)
    enqueued_at: int = field(default_factory=lambda: time.time_ns() // 1000)
    due_at: Optional[int] = None

    def __repr__(self) -> str:
        return f"Outgoing(endpoint={self.endpoint!r}, message_id={str(self.message_id)!r})"

    def envelope(self, source: str) -> Envelope:
        """The envelope from this service."""
        if not isinstance(self.endpoint, str) or not is_endpoint(self.endpoint):
            raise InvalidMessage("endpoint", "is not valid", "use 1 to 255 characters without blanks")
        if self.kind not in KINDS:
            raise InvalidMessage("kind", "is unknown on the wire", f"use one of {', '.join(KINDS)}")
        if self.correlation_id:
            check_name("correlation_id", self.correlation_id)
        headers = dict(check_headers(self.headers))
        if self.lane:
            headers[LANE] = check_name("lane", self.lane)
        return Envelope(
            message_id=str(parse_id(self.message_id)),
            source=source,
            kind=self.kind,
            endpoint=self.endpoint,
            payload=NewMessage(self.endpoint, self.payload).text,
            correlation_id=self.correlation_id or None,
            headers=headers,
        )


@dataclass(frozen=True)
class Acknowledged:
    """The receiver has the message for good, and proved it. `payload` is the handler's answer, if it came at once.

    `retention` says for how many seconds the receiver recognises a duplicate.
    """

    status: int
    is_duplicate: bool
    payload: Any = field(default=None, repr=False)
    retention: Optional[int] = None


class NotAcknowledged(PostroomError):
    """The receiver did not take the message. `is_final` says that it never will; otherwise send it again later.

    `uses_attempt` says that the message itself failed there. `retry_after` are the seconds that the receiver asks for.
    """

    def __init__(self, status: int, error: str, after: float) -> None:
        super().__init__(f"the receiver answered {status}: {error}")
        self.status = status
        self.is_final = status in _FOR_GOOD
        self.uses_attempt = status == 500
        self.retry_after = after


class NoReceipt(PostroomError):
    """The answer has no valid receipt, so it says nothing about the message. Send it again later.

    Something else answered, or the receiver does not know the key.
    """

    def __init__(self, status: int, after: float) -> None:
        super().__init__(f"the answer with status {status} has no valid receipt")
        self.status = status
        self.retry_after = after


class WireClient:
    """Sends messages to one Postroom receiver, and believes only answers with a receipt.

    It sends once and stores nothing. If your program ends before the receipt arrives, nobody sends the message again:
    enqueue what must arrive, and let a node send it. ::

        client = WireClient("https://inventory.example:7410", "orders", "inventory", Key("2026-11", secret))
        reserve = Outgoing("stock.reserve", {"order": 7}, kind="Command")
        print(client.send(reserve).is_duplicate)
    """

    def __init__(
        self,
        url: str,
        source: str,
        destination: str,
        keys: Union[Key, Iterable[Key]],
        *,
        timeout: float = 30.0,
        tls: Optional[ssl.SSLContext] = None,
        allow_unencrypted: bool = False,
    ) -> None:
        address = Address.parse(url, allow_unencrypted=allow_unencrypted)
        self._source = check_service("source", source)
        self._destination = check_service("destination", destination)
        self._keys = [keys] if isinstance(keys, Key) else list(keys)
        if not self._keys:
            raise ValueError("there is no key; give at least one")
        self._path = urlsplit(url).path.rstrip("/") or PATH
        self._pool = Pool(replace(address, path=""), timeout, tls)

    def __repr__(self) -> str:
        return f"WireClient({self._source!r} to {self._destination!r})"

    def close(self) -> None:
        """Closes the connections."""
        self._pool.close()

    def send(self, message: Outgoing, *, attempt: int = 1) -> Acknowledged:
        """Sends a message. It raises `NotAcknowledged`, `NoReceipt` or `NoAnswer` if the receiver did not take it.

        `attempt` is one more for each time that an answer had `uses_attempt`.
        """
        body = message.envelope(self._source).to_json()
        head = self._head(message, attempt, body)
        keys = [key for key in self._keys if key.is_valid()]
        answer = self._pool.request("POST", self._path, head.headers(keys), body)
        return self._judged(head, answer)

    def _head(self, message: Outgoing, attempt: int, body: bytes) -> Head:
        return Head(
            source=self._source,
            destination=self._destination,
            method="POST",
            path=self._path,
            message_id=str(parse_id(message.message_id)),
            enqueued_at=str(message.enqueued_at),
            due_at="" if message.due_at is None else str(message.due_at),
            attempt=str(attempt),
            timestamp=str(time.time_ns() // 1000),
            content_type="application/json",
            digest=hashlib.sha256(body).digest(),
        )

    def _judged(self, head: Head, answer: Answer) -> Acknowledged:
        receipt = ReceiptHead.of(
            head.destination, head.message_id, head.timestamp, answer.status, answer.headers, answer.body
        )
        after = retry_after(answer)
        if not receipt.is_signed(answer.headers.get("rf-ack", ""), [key for key in self._keys if key.is_valid()]):
            raise NoReceipt(answer.status, after)
        told = _told(answer.body)
        is_duplicate = told.get("duplicateDetected") is True
        if 200 <= answer.status < 300 and (told.get("acknowledged") is True or is_duplicate):
            retention = answer.headers.get("rf-inbox-retention", "")
            kept = int(retention) if retention.isascii() and retention.isdigit() else None
            return Acknowledged(answer.status, is_duplicate, told.get("payload"), kept)
        raise NotAcknowledged(answer.status, str(told.get("error", "no reason")), after)


def _told(body: bytes) -> Dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
