"""Signals that ask a worker to end."""

from __future__ import annotations

import signal
import threading
from typing import Any, Callable, Dict


class Signals:
    """Calls a function at the first SIGTERM or SIGINT, and lets the second one do what it did before."""

    def __init__(self, stop: Callable[[], None], is_on: bool) -> None:
        self._stop = stop
        self._before: Dict[int, Any] = {}
        # Only the main thread may.
        is_on = is_on and threading.current_thread() is threading.main_thread()
        self._watched = (signal.SIGTERM, signal.SIGINT) if is_on else ()

    def __enter__(self) -> None:
        for number in self._watched:
            self._before[number] = signal.signal(number, self._got)

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _got(self, number: int, _: object) -> None:
        self.__exit__()
        self._stop()
