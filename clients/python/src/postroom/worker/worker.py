"""A worker: fetches messages from a node, handles them, and settles them."""

from __future__ import annotations

import logging
import queue
import ssl
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..errors import Refused
from ..http.retry import Backoff
from ..http.session import Session
from ..received import H, Handler, Handlers, Message, Retry, Terminal, told
from .api import Pull, abandon, ack, fail
from .fetch import Fetcher
from .held import Held, InProgress
from .renew import Renewer
from .settle import Settler
from .signals import Signals

log = logging.getLogger("postroom.worker")

QUEUES = ("outbox", "inbox")
WAIT_MAX = 30
DAY = 24 * 3600
# The time for the node to take the last acks, after the grace.
_FLUSH = 5.0

OnError = Callable[[Message, BaseException], None]


class Worker:
    """Fetches the messages of some topics from a node, and handles each in a thread.

    Delivery is at least once: a handler may get a message again, and `once` recognises that. ::

        worker = Worker("http://127.0.0.1:7411", os.environ["NODE_TOKEN"])

        @worker.handle("order.placed")
        def placed(message):
            reserve(message.payload["order"])
            return {"reserved": True}

        worker.run()

    What the handler returns is the answer, which must be JSON of at most 64 KiB; None means that there is none.
    `raise Retry(after=30)` and `raise Terminal("why")` say how a message ends. Any other exception means a retry, after
    2, 4, 8 … 60 seconds.

    `queues`: the outbox has what was enqueued on this database, the inbox what other services sent. `concurrency` is
    the number of threads for each of them. `lease`, `wait` and `grace` are seconds: how long a message is ours unless
    the lease is renewed, how long the node waits for a message, and how long handlers may take to end when the worker
    stops. `on_error` gets every exception of a handler. The worker's own log has neither payloads nor texts of
    exceptions.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        queues: Sequence[str] = QUEUES,
        concurrency: int = 4,
        lease: int = 30,
        wait: int = 20,
        grace: float = 30.0,
        timeout: float = 10.0,
        tls: Optional[ssl.SSLContext] = None,
        allow_unencrypted: bool = False,
        on_error: Optional[OnError] = None,
    ) -> None:
        if not queues or not set(queues) <= set(QUEUES):
            raise ValueError("queues is not valid; use outbox, inbox or both")
        for name, value, least, most in [
            ("concurrency", concurrency, 1, 1000),
            ("lease", lease, 1, DAY),
            ("wait", wait, 0, WAIT_MAX),
        ]:
            if not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name} is not valid; use a whole number from {least} to {most}")
        self._session = Session(url, token, timeout=timeout, tls=tls, allow_unencrypted=allow_unencrypted)
        self._queues, self._concurrency, self._lease, self._wait = tuple(queues), concurrency, lease, wait
        self._grace, self._on_error = grace, on_error
        self.handlers = Handlers()
        self._in_progress = InProgress()
        # A signal may put something in here at any moment; a lock could be held just then.
        self._asked: "queue.SimpleQueue[Optional[Refused]]" = queue.SimpleQueue()
        self._fetchers: List[Fetcher] = []
        self._settlers: Dict[str, Settler] = {}
        self._renewer: Optional[Renewer] = None
        self._backoff: Callable[[], Backoff] = Backoff

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.address.origin!r}, topics={self.handlers.topics!r})"

    def handle(self, topic: str) -> Callable[[H], H]:
        """A decorator that makes a function the handler of a topic; `"*"` is for every other topic."""
        return self.handlers.add(topic)

    def run(self, *, signals: bool = True) -> None:
        """Works until `stop` is called, or the program gets SIGTERM or SIGINT.

        Then it claims nothing more. Messages in progress have the grace to finish; the others go back to the queue. A
        second signal ends the program at once. If the node refuses the token or a topic from the beginning, that is
        raised.
        """
        with Signals(self.stop, is_on=signals):
            self.start()
            try:
                problem = self._asked.get()
            finally:
                self.end()
        if problem:
            raise problem

    def stop(self) -> None:
        """Asks `run` to end. It may be called by any thread and in a signal handler, and returns at once."""
        self._asked.put(None)

    def start(self) -> None:
        """Starts the threads, for programs that do something else meanwhile. They call `end` later."""
        topics = self.handlers.topics
        if topics == []:
            raise ValueError("the worker has no handler; use @worker.handle(topic)")
        if self._renewer:
            raise RuntimeError("the worker runs already, or has ended; make a new one")
        pull = Pull(self._session)
        self._renewer = Renewer(pull, self._in_progress, self._lease)
        for name in self._queues:
            self._settlers[name] = Settler(pull, name, self._in_progress, self._backoff())
            self._fetchers.append(
                Fetcher(
                    pull,
                    name,
                    topics,
                    self._in_progress,
                    self._process,
                    self._asked.put,
                    concurrency=self._concurrency,
                    lease=self._lease,
                    wait=self._wait,
                    backoff=self._backoff(),
                )
            )
        for thread in [self._renewer, *self._settlers.values(), *self._fetchers]:
            thread.start()

    def end(self) -> None:
        """Ends the threads: finishes what is in progress within the grace, and gives the rest back."""
        until = time.monotonic() + self._grace
        for fetcher in self._fetchers:
            fetcher.stop()
        for fetcher in self._fetchers:
            fetcher.join(max(1.0, until - time.monotonic()))
        if not self._in_progress.wait_for_handlers(until):
            for held in self._in_progress.give_up():
                self._gave_up(held)
                self._settlers[held.queue].settle(abandon(held, "the worker stopped before the handler ended", 0))
        if not self._in_progress.wait_until_empty(max(until, time.monotonic() + _FLUSH)):
            log.warning("%d messages could not be settled; their leases will end", len(self._in_progress.all()))
        for fetcher in self._fetchers:
            fetcher.end()
        if self._renewer:
            self._renewer.end()
        for settler in self._settlers.values():
            settler.end()
        for settler in self._settlers.values():
            settler.join(_FLUSH)
        self._session.close()

    def _process(self, held: Held) -> None:
        """Handles a message, and says how it ended."""
        message = held.message
        handler = self.handlers.find(message.topic)
        try:
            if handler is None:
                raise Retry(why=f"this worker has no handler for {message.topic}")
            settle = ack(held, self._call(handler, held))
        except Terminal as error:
            settle = fail(held, told(error))
        except Retry as error:
            settle = abandon(held, told(error), error.after)
        except BaseException as error:
            settle = abandon(held, told(error))
            self._failed(message, error)
        if self._in_progress.handled(held):
            self._settlers[held.queue].settle(settle)

    def _call(self, handler: Handler, held: Held) -> Any:
        return handler(held.message)

    def _gave_up(self, held: Held) -> None:
        """The handler is still at work, and nobody waits for it any more."""

    def _failed(self, message: Message, error: BaseException) -> None:
        # The text of the exception may quote the payload.
        kind, named = type(error).__name__, message.message_id
        log.warning(
            "the handler of %s failed with %s: message %s, attempt %d", message.topic, kind, named, message.attempt
        )
        if self._on_error:
            try:
                self._on_error(message, error)
            except Exception as other:
                log.error("on_error failed with %s", type(other).__name__)
