"""The signed wire between services, version 2: see guides/wire.md."""

from .client import Acknowledged, NoReceipt, NotAcknowledged, Outgoing, WireClient
from .envelope import Envelope
from .json_object import MalformedEnvelope
from .keys import Key, new_secret
from .receiver import Source, Verified, WireReceiver
from .signing import Head, ReceiptHead
from .v1 import is_signed_v1, sign_v1

__all__ = [
    "Acknowledged",
    "Envelope",
    "Head",
    "Key",
    "MalformedEnvelope",
    "NoReceipt",
    "NotAcknowledged",
    "Outgoing",
    "ReceiptHead",
    "Source",
    "Verified",
    "WireClient",
    "WireReceiver",
    "is_signed_v1",
    "new_secret",
    "sign_v1",
]
