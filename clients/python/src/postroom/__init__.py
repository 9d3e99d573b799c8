"""Reliable messaging with Postroom.

- `enqueue` writes a message in your own database transaction. `enqueue_async` does it with asyncio.
- `Client` enqueues through a node, over HTTP, and waits for answers.
- `Worker` fetches messages from a node and handles them. `AsyncWorker` has handlers that are coroutines.
- `postroom.push.PushReceiver` verifies and handles the messages that a node posts to your URL.
- `once` makes a handler's work take effect once.
- `postroom.wire` speaks the signed protocol between services.
- `postroom.testing` is for your own tests.
"""

from . import push, sqlite
from ._version import __version__
from .errors import (
    Conflict,
    FieldError,
    InvalidMessage,
    NoAnswer,
    NotAllowed,
    NotFound,
    NoTransaction,
    PostroomError,
    Refused,
    StillWaiting,
    Unavailable,
    UniqueKeyTaken,
    UnknownConnection,
)
from .http.client import Cancelled, Client
from .http.status import MessageStatus, Status
from .message import Enqueued, NewMessage, Raw, Unique
from .once import create_once_table, forget_handled, once, once_async
from .received import Message, Retry, Terminal
from .sql.enqueue import enqueue, enqueue_async, enqueue_message, enqueue_message_async
from .sql.tables import Tables
from .worker.aio import AsyncWorker
from .worker.worker import Worker

__all__ = [
    "__version__",
    "AsyncWorker",
    "Cancelled",
    "Client",
    "Conflict",
    "Enqueued",
    "FieldError",
    "InvalidMessage",
    "Message",
    "MessageStatus",
    "NewMessage",
    "NoAnswer",
    "NoTransaction",
    "NotAllowed",
    "NotFound",
    "PostroomError",
    "Raw",
    "Refused",
    "Retry",
    "Status",
    "StillWaiting",
    "Tables",
    "Terminal",
    "Unavailable",
    "Unique",
    "UniqueKeyTaken",
    "UnknownConnection",
    "Worker",
    "create_once_table",
    "enqueue",
    "enqueue_async",
    "enqueue_message",
    "enqueue_message_async",
    "forget_handled",
    "once",
    "once_async",
    "push",
    "sqlite",
]
