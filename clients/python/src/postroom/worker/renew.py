"""Renews the leases of messages in progress."""

from __future__ import annotations

import logging
import threading
import time
from typing import Dict, List

from ..errors import NoAnswer, Refused
from .api import Pull, extend
from .background import Background
from .held import Held, InProgress
from .settle import ITEMS_MAX

log = logging.getLogger("postroom.worker")


class Renewer(Background):
    """Extends every lease when a third of it is over, and says whose lease is lost."""

    def __init__(self, pull: Pull, in_progress: InProgress, lease: int) -> None:
        super().__init__("renew")
        self._pull, self._in_progress, self._lease = pull, in_progress, lease
        self._ended = threading.Event()

    def end(self) -> None:
        """Ends the thread."""
        self._ended.set()

    def run(self) -> None:
        """Renews until the end."""
        usual, soon = self._lease / 3, min(1.0, self._lease / 10)
        pause = usual
        while not self._ended.wait(pause):
            pause = usual if self.renew() else soon

    def renew(self) -> bool:
        """Extends the leases of all messages in progress; false if the node could not be asked."""
        by_queue: Dict[str, List[Held]] = {}
        for held in self._in_progress.all():
            if not held.stop.lease_lost:
                by_queue.setdefault(held.queue, []).append(held)
        is_asked = True
        for name, some in by_queue.items():
            for at in range(0, len(some), ITEMS_MAX):
                is_asked &= self._extend(name, some[at : at + ITEMS_MAX])
        for held in self._in_progress.all():
            if held.until < time.monotonic():
                held.lose()
        return is_asked

    def _extend(self, name: str, some: List[Held]) -> bool:
        # The lease lasts from a moment after this one.
        until = time.monotonic() + self._lease
        try:
            results = self._pull.settle(name, "extend", [extend(held, self._lease) for held in some])
        except (NoAnswer, Refused) as error:
            log.warning("%d leases could not be renewed: %s", len(some), error)
            return False
        is_asked = True
        for held, (problem, asked_to_stop) in zip(some, results):
            if problem is None:
                held.until = until
                held.stop.cancelled |= asked_to_stop
            elif problem.status < 500:
                held.lose()
            else:
                is_asked = False
        return is_asked
