"""Receives the messages that a node posts to a URL."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any, Callable, Iterable, Optional, Tuple, Union

from ..received import H, Handler, Handlers, Message, Retry, Terminal, told
from .request import Headers, is_id_of, lower, message_of
from .response import Response, done, text
from .signature import Keys

log = logging.getLogger("postroom.push")

BODY_MAX = 16 * 1024 * 1024

OnError = Callable[[Message, BaseException], None]


class PushReceiver:
    """Verifies what a node posts, and gives it to the handler of its topic.

    `secrets` is the handler's secret in the node's configuration, or several while it is replaced. ::

        receiver = PushReceiver(os.environ["HANDLER_SECRET"])

        @receiver.on("order.placed")
        def placed(message):
            with connect() as conn:
                if once(conn, message):
                    conn.execute("INSERT INTO reserved (order_id) VALUES (?)", (message.payload["order"],))
            return {"reserved": True}

        response = receiver.handle(request_headers, request_body)

    What the handler returns is the answer: JSON of at most 64 KiB, or None. `raise Terminal("why")` makes the message
    dead (422). `raise Retry(after=30)` and any other exception mean a retry (500) and use an attempt. Delivery is at
    least once: `once` recognises a message that comes again.

    `on_error` gets every exception of a handler. The log has neither payloads nor texts of exceptions; the node stores
    the text with the message.
    """

    def __init__(
        self, secrets: Union[str, Iterable[str]], *, body_max: int = BODY_MAX, on_error: Optional[OnError] = None
    ) -> None:
        self._keys = Keys(secrets)
        self.body_max = body_max
        self.handlers = Handlers()
        self._on_error = on_error

    def __repr__(self) -> str:
        return f"PushReceiver(topics={self.handlers.topics!r})"

    def on(self, topic: str) -> Callable[[H], H]:
        """A decorator that makes a function the handler of a topic; `"*"` is for every other topic."""
        return self.handlers.add(topic)

    def handle(self, headers: Headers, body: bytes) -> Response:
        """Verifies a request, calls its handler, and returns what to answer."""
        accepted = self._accept(headers, body)
        if isinstance(accepted, Response):
            return accepted
        handler, message = accepted
        try:
            result = handler(message)
            if inspect.isawaitable(result):
                result = asyncio.run(_awaited(result))
        except Exception as error:
            return self._failed(message, error)
        return done(result)

    async def handle_async(self, headers: Headers, body: bytes) -> Response:
        """The same in an event loop. Handlers that are no coroutines run in a thread."""
        accepted = self._accept(headers, body)
        if isinstance(accepted, Response):
            return accepted
        handler, message = accepted
        try:
            if inspect.iscoroutinefunction(handler):
                result = await handler(message)
            else:
                result = await asyncio.get_running_loop().run_in_executor(None, handler, message)
                result = await result if inspect.isawaitable(result) else result
        except Exception as error:
            return self._failed(message, error)
        return done(result)

    def too_large(self) -> Response:
        """The answer to a body over the limit. The message is dead: it would never fit, and must not hold up others."""
        return text(422, f"the body is larger than {self.body_max} bytes, the limit of this handler")

    def _accept(self, headers: Headers, body: bytes) -> Union[Response, Tuple[Handler, Message]]:
        if len(body) > self.body_max:
            return self.too_large()
        given = lower(headers)
        signed = self._keys.verify(given, body)
        message = message_of(given, body)
        if signed is None or not is_id_of(signed, message.message_id):
            return text(401, "the signature is missing, wrong or too old")
        handler = self.handlers.find(message.topic)
        if handler is None:
            return text(404, f"there is no handler for the topic {message.topic}")
        return handler, message

    def _failed(self, message: Message, error: Exception) -> Response:
        if isinstance(error, Terminal):
            return text(422, told(error))
        if isinstance(error, Retry):
            return text(500, told(error), {} if error.after is None else {"retry-after": str(error.after)})
        # The text of the exception may quote the payload.
        kind, named = type(error).__name__, message.message_id
        log.warning(
            "the handler of %s failed with %s: message %s, attempt %d", message.topic, kind, named, message.attempt
        )
        if self._on_error:
            self._on_error(message, error)
        return text(500, told(error))


async def _awaited(result: Any) -> Any:
    return await result
