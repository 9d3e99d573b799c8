"""The messages that are in progress here."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List

from ..received import Message, Stop


@dataclass
class Held:
    """A message in progress, and the right to settle it until a time of the monotonic clock."""

    queue: str
    lease: str = field(repr=False)
    message: Message
    stop: Stop
    until: float
    is_handled: bool = False
    """The handler has ended, and the queue is not told yet."""

    def lose(self) -> None:
        """Another worker has it, or will get it."""
        self.stop.lease_lost = True


class InProgress:
    """All that is in progress, for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._held: Dict[str, Held] = {}

    def add(self, held: Held) -> None:
        """It was claimed."""
        with self._lock:
            self._held[held.lease] = held

    def remove(self, held: Held) -> None:
        """It is settled, or lost."""
        with self._lock:
            self._held.pop(held.lease, None)
            self._lock.notify_all()

    def all(self) -> List[Held]:
        """Those in progress now."""
        with self._lock:
            return list(self._held.values())

    def handled(self, held: Held) -> bool:
        """The handler has ended. False if the worker gave the message back before."""
        with self._lock:
            if held.is_handled:
                return False
            held.is_handled = True
            self._lock.notify_all()
            return True

    def give_up(self) -> List[Held]:
        """Those whose handlers are still at work; from now on nobody waits for them."""
        with self._lock:
            working = [held for held in self._held.values() if not held.is_handled]
            for held in working:
                held.is_handled = True
                held.stop.cancelled = True
            return working

    def wait_for_handlers(self, until: float) -> bool:
        """Waits until no handler is at work; false if the time is over before."""
        return self._wait(until, lambda: all(held.is_handled for held in self._held.values()))

    def wait_until_empty(self, until: float) -> bool:
        """Waits until everything is settled; false if the time is over before."""
        return self._wait(until, lambda: not self._held)

    def _wait(self, until: float, is_so: Callable[[], bool]) -> bool:
        with self._lock:
            while not is_so():
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._lock.wait(left)
            return True


class Slots:
    """How many more messages may be in progress."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Condition()
        self._free = count
        self._is_closed = False

    def take(self, most: int) -> int:
        """Waits for a free slot and takes up to `most`; 0 if nothing more is to begin."""
        with self._lock:
            self._lock.wait_for(lambda: self._free or self._is_closed)
            taken = 0 if self._is_closed else min(self._free, most)
            self._free -= taken
            return taken

    def give_back(self, count: int = 1) -> None:
        """Slots are free again."""
        with self._lock:
            self._free += count
            self._lock.notify_all()

    def close(self) -> None:
        """Nothing more is to begin."""
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()
