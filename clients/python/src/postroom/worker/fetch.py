"""Claims messages and gives them to threads that handle them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import Callable, List, Optional

from ..errors import NoAnswer, PostroomError, Refused
from ..http.pool import Interrupt
from ..http.retry import Backoff
from .api import Pull
from .background import Background
from .held import Held, InProgress, Slots

log = logging.getLogger("postroom.worker")

CLAIM_MAX = 100
# A node has room for so many waiting clients only; a further one is answered at once.
_PAUSE = 0.5
_SHORT = 0.2


class Fetcher(Background):
    """Claims the messages of one queue, as many as there are free threads."""

    def __init__(
        self,
        pull: Pull,
        name: str,
        topics: Optional[List[str]],
        in_progress: InProgress,
        handle: Callable[[Held], None],
        refused: Callable[[Refused], None],
        *,
        concurrency: int,
        lease: int,
        wait: int,
        backoff: Backoff,
    ) -> None:
        super().__init__(f"fetch-{name}")
        self._pull, self._queue, self._topics = pull, name, topics
        self._in_progress, self._handle, self._refused = in_progress, handle, refused
        self._lease, self._wait, self._backoff = lease, wait, backoff
        self._slots = Slots(concurrency)
        self._stopping = threading.Event()
        self._interrupt = Interrupt()
        self._ready: "queue.SimpleQueue[Optional[Held]]" = queue.SimpleQueue()
        self._is_known = False
        self._threads = [
            threading.Thread(target=self._work, name=f"postroom-{name}-{number}", daemon=True)
            for number in range(concurrency)
        ]

    def start(self) -> None:
        """Starts this thread and those that handle messages."""
        for thread in self._threads:
            thread.start()
        super().start()

    def stop(self) -> None:
        """Claims nothing more."""
        self._stopping.set()
        self._slots.close()
        self._interrupt.set()

    def end(self) -> None:
        """Ends the threads that have nothing to do."""
        for _ in self._threads:
            self._ready.put(None)

    def run(self) -> None:
        """Claims until it is stopped."""
        while not self._stopping.is_set():
            taken = self._slots.take(CLAIM_MAX)
            claimed = self._claim(taken) if taken else []
            self._slots.give_back(taken - len(claimed))
            for held in claimed:
                self._in_progress.add(held)
                self._ready.put(held)

    def _claim(self, limit: int) -> List[Held]:
        began = time.monotonic()
        try:
            claimed = self._pull.claim(self._queue, self._topics, limit, self._lease, self._wait, self._interrupt)
        except PostroomError as error:
            self._failed(error)
            return []
        self._is_known = True
        self._backoff.reset()
        if not claimed and self._wait and time.monotonic() - began < _SHORT:
            self._stopping.wait(_PAUSE)
        return claimed

    def _failed(self, error: PostroomError) -> None:
        if self._stopping.is_set():
            return
        if isinstance(error, Refused) and error.status < 500 and error.status not in (408, 425, 429):
            if not self._is_known:
                # A wrong token or topic from the beginning is a mistake that somebody should see at once.
                self._refused(error)
            log.error("the node refuses to hand out messages of the %s: %s", self._queue, error)
        elif isinstance(error, NoAnswer):
            log.warning("%s; trying again", error)
        else:
            log.warning("the node hands out nothing at the moment: %s", error)
        self._stopping.wait(self._backoff.next())

    def _work(self) -> None:
        for held in iter(self._ready.get, None):
            try:
                self._handle(held)
            finally:
                self._slots.give_back()
