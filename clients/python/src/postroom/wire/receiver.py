"""The receiver's side of the wire: verifies what arrives, and signs the answer."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, Optional, Sequence

from ..checks import service as check_service
from ..push.response import Response
from .envelope import Envelope
from .json_object import MalformedEnvelope
from .keys import Key
from .request import Headers, MalformedHeader, Signed, by_name, read
from .signing import ReceiptHead

SECOND = 1_000_000
TOLERANCE = 300 * SECOND
WINDOW = 29 * 24 * 3600 * SECOND
BODY_MAX = 4 * 1024 * 1024
# Every 401 has the same text, so that a stranger learns nothing.
STRANGER = "the request is not signed by a known source"


@dataclass(frozen=True)
class Source:
    """A service that may send: its keys, and the endpoints that it may use. A `*` at the end stands for anything."""

    name: str
    keys: Sequence[Key]
    topics: Optional[Sequence[str]] = None

    def __post_init__(self) -> None:
        check_service("name", self.name)
        if not self.keys:
            raise ValueError(f"the source {self.name} has no key")

    def may_send(self, envelope: Envelope) -> bool:
        """Whether it may use this endpoint. A Response has that of a request which the receiver itself sent."""
        if self.topics is None or envelope.kind == "Response":
            return True
        return any(
            envelope.endpoint.startswith(each[:-1]) if each.endswith("*") else envelope.endpoint == each
            for each in self.topics
        )


@dataclass(frozen=True)
class Verified:
    """What a receiver found out about a request.

    With `status` 200 all checks hold: handle `envelope`, and answer with `WireReceiver.answer`. Any other status is the
    answer. Only an answer with `has_receipt` is signed.
    """

    status: int
    has_receipt: bool
    error: str = ""
    envelope: Optional[Envelope] = None
    _signed: Optional[Signed] = field(default=None, repr=False)
    _keys: Sequence[Key] = field(default=(), repr=False)

    @property
    def is_ok(self) -> bool:
        """Whether the message may be handled."""
        return self.status == 200


class WireReceiver:
    """Verifies requests of version 2 for one service.

    It checks everything that guides/wire.md asks for up to the handler, and stores nothing: recognise duplicates by
    source and id, in the transaction of your work (`once`), and remember them for ten minutes longer than `window`. ::

        receiver = WireReceiver("inventory", [Source("orders", [Key("2026-11", secret)])])
        verified = receiver.verify("POST", path, headers, body)
        if verified.is_ok:
            response = receiver.answer(verified, payload=handle(verified.envelope))
        else:
            response = receiver.answer(verified)
    """

    def __init__(
        self, name: str, sources: Iterable[Source], *, window: int = 29 * 24 * 3600, body_max: int = BODY_MAX
    ) -> None:
        self.name = check_service("name", name)
        self._sources = {source.name: source for source in sources}
        self._window, self._body_max = window, body_max

    def __repr__(self) -> str:
        return f"WireReceiver({self.name!r}, sources={sorted(self._sources)!r})"

    def verify(self, method: str, path: str, headers: Headers, body: bytes, *, now: Optional[int] = None) -> Verified:
        """Verifies a request. `path` is the one in the request line, with its query. `now` is for tests."""
        now = time.time_ns() // 1000 if now is None else now
        given = by_name(headers)
        if method != "POST":
            return Verified(405, False, "use POST")
        if len(body) > self._body_max:
            return Verified(413, False, f"the body is larger than {self._body_max} bytes")
        if "rf-signature" not in given:
            return Verified(401, False, STRANGER)
        try:
            signed = read(method, path, given)
        except MalformedHeader as error:
            return Verified(400, False, str(error))
        source = self._sources.get(signed.head.source)
        keys = [key for key in (source.keys if source else ()) if key.is_valid()]
        is_known = signed.head.is_signed(signed.signature, keys)
        is_ours = signed.head.destination == self.name
        is_timely = abs(signed.timestamp - now) <= TOLERANCE and signed.enqueued_at <= signed.timestamp + TOLERANCE
        is_whole = hmac.compare_digest(hashlib.sha256(body).digest(), signed.head.digest)
        if source is None or not (is_known and is_ours and is_timely and is_whole):
            return Verified(401, False, STRANGER)
        return self._judge(source, signed, keys, body, now)

    def _judge(self, source: Source, signed: Signed, keys: Sequence[Key], body: bytes, now: int) -> Verified:
        def verdict(status: int, error: str = "", envelope: Optional[Envelope] = None) -> Verified:
            return Verified(status, True, error, envelope, signed, keys)

        try:
            envelope = Envelope.parse(body)
        except MalformedEnvelope as error:
            return verdict(400, str(error))
        if (envelope.message_id, envelope.source) != (signed.head.message_id, signed.head.source):
            return Verified(401, False, STRANGER)
        try:
            envelope.check()
        except MalformedEnvelope as error:
            return verdict(400, str(error))
        if max(signed.enqueued_at, signed.due_at) < now - self._window * SECOND:
            return verdict(410, "the message is older than the dedupe window", envelope)
        if not source.may_send(envelope):
            return verdict(403, f"the source {source.name} may not send {envelope.endpoint}", envelope)
        return verdict(200, envelope=envelope)

    def answer(
        self,
        verified: Verified,
        status: Optional[int] = None,
        *,
        payload: Any = None,
        duplicate: bool = False,
        error: str = "",
        retry_after: Optional[int] = None,
    ) -> Response:
        """The answer to a request, with its receipt if it may have one.

        The status is 200 (handled) or 202 (queued), or says why the message was not accepted: 422 makes it dead, 500
        uses an attempt, 503 lets it wait.
        """
        status = verified.status if status is None else status
        is_accepted = status in (200, 202)
        told: Dict[str, Any] = {"acknowledged": is_accepted, "duplicateDetected": duplicate}
        if is_accepted and payload is not None:
            told["payload"] = payload
        if not is_accepted:
            told["error"] = error or verified.error or "the message was not accepted"
        body = json.dumps(told, ensure_ascii=False, allow_nan=False).encode()
        headers = {"content-type": "application/json"}
        if retry_after is not None:
            headers["retry-after"] = str(retry_after)
        if verified.has_receipt and verified._signed is not None:
            headers["rf-inbox-retention"] = str(self._window)
            head = verified._signed.head
            receipt = ReceiptHead.of(self.name, head.message_id, head.timestamp, status, headers, body)
            headers["rf-ack"] = receipt.sign(verified._keys)
        return Response(status, headers, body)
