"""The envelope: a message as it travels between services."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

from ..checks import headers as check_headers
from ..checks import name as check_name
from ..errors import InvalidMessage
from .json_object import MalformedEnvelope, fields_of

KINDS = ("Signal", "Command", "PushCall", "Response")
CONTENT_TYPE = "content-type"
EXPIRES_AT = "rf-expires-at"
LANE = "rf-lane"
IN_REPLY_TO = "rf-in-reply-to"

_FIELDS = ("messageId", "correlationId", "sourceServiceId", "messageType", "endpoint", "payload", "headers")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SERVICE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ENDPOINT = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]{1,255}")


@dataclass(frozen=True, repr=False)
class Envelope:
    """A message on the wire. `payload` is the text of its JSON, whose bytes are kept."""

    message_id: str
    source: str
    kind: str
    endpoint: str
    payload: str
    correlation_id: Optional[str] = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Envelope(message_id={self.message_id!r}, source={self.source!r}, endpoint={self.endpoint!r})"

    def to_json(self) -> bytes:
        """The body of a request."""
        fields: Dict[str, Any] = {
            "messageId": self.message_id,
            "correlationId": self.correlation_id,
            "sourceServiceId": self.source,
            "messageType": self.kind,
            "endpoint": self.endpoint,
            "headers": dict(self.headers) or None,
        }
        given = json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)
        return f'{given[:-1]}, "payload": {self.payload}}}'.encode()

    @classmethod
    def parse(cls, body: bytes) -> Envelope:
        """Reads an envelope. `MalformedEnvelope` says that it is none."""
        sent = fields_of(body)
        unknown = set(sent) - set(_FIELDS)
        if unknown:
            raise MalformedEnvelope("the envelope has an unknown field")
        texts = {name: _string(sent, name) for name in ("messageId", "sourceServiceId", "messageType", "endpoint")}
        correlation_id = None if _value(sent, "correlationId") is None else _string(sent, "correlationId")
        if not is_message_id(texts["messageId"]):
            raise MalformedEnvelope("messageId must be a UUID in lower case, with hyphens, and not all zeros")
        if not _SERVICE.fullmatch(texts["sourceServiceId"]):
            raise MalformedEnvelope("sourceServiceId is no name of a service")
        if texts["messageType"] not in KINDS:
            raise MalformedEnvelope(f"messageType must be one of {', '.join(KINDS)}")
        if not is_endpoint(texts["endpoint"]):
            raise MalformedEnvelope("endpoint must be 1 to 255 characters without blanks and control characters")
        if "payload" not in sent:
            raise MalformedEnvelope("the field payload is missing")
        headers = _headers(sent)
        return cls(
            message_id=texts["messageId"],
            source=texts["sourceServiceId"],
            kind=texts["messageType"],
            endpoint=texts["endpoint"],
            payload=sent["payload"][1],
            correlation_id=correlation_id or None,
            headers=headers,
        )

    @property
    def own_headers(self) -> Dict[str, str]:
        """The headers without those of the wire itself, except `rf-in-reply-to` of a Response."""
        is_kept = IN_REPLY_TO if self.kind == "Response" else None
        return {name: value for name, value in self.headers.items() if not name.startswith("rf-") or name == is_kept}

    @property
    def is_json(self) -> bool:
        """Whether the payload is JSON. If not, it travels as a JSON string."""
        return is_json(self.headers.get(CONTENT_TYPE, "application/json"))

    def check(self) -> None:
        """Checks headers, correlation id and payload, as a receiver does."""
        try:
            own = self.own_headers
            check_headers({name: value for name, value in own.items() if name != IN_REPLY_TO})
            if self.correlation_id is not None:
                check_name("correlationId", self.correlation_id)
        except InvalidMessage as error:
            raise MalformedEnvelope(str(error)) from None
        if not self.is_json and not self.payload.startswith('"'):
            raise MalformedEnvelope("a payload whose content type is not JSON must be a JSON string")


def is_message_id(text: str) -> bool:
    """A UUID in lower case with hyphens, and not all zeros."""
    return _ID.fullmatch(text) is not None and bool(text.strip("0-"))


def is_endpoint(text: str) -> bool:
    """A topic on the wire."""
    return _ENDPOINT.fullmatch(text) is not None


def is_json(content_type: str) -> bool:
    """Whether a content type is that of JSON."""
    kind = content_type.split(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _value(sent: Mapping[str, Tuple[Any, str]], name: str) -> Any:
    return sent[name][0] if name in sent else None


def _string(sent: Mapping[str, Tuple[Any, str]], name: str) -> str:
    value = _value(sent, name)
    if not isinstance(value, str) or not _is_utf8(value):
        raise MalformedEnvelope(f"the field {name} is missing, or no text")
    return value


def _headers(sent: Mapping[str, Tuple[Any, str]]) -> Dict[str, str]:
    value = _value(sent, "headers") if "headers" in sent else {}
    if not isinstance(value, dict):
        raise MalformedEnvelope("headers must be an object of texts")
    if not all(isinstance(each, str) and _is_utf8(each) and _is_utf8(name) for name, each in value.items()):
        raise MalformedEnvelope("headers must be an object of texts")
    return dict(value)


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in text)
