"""Pauses between attempts."""

from __future__ import annotations

import random
from typing import Optional

from .pool import Answer

RETRY_AFTER_MAX = 60.0


class Backoff:
    """Pauses that grow from `first` to `most` seconds, each a random part of its length.

    >>> pauses = Backoff(first=1.0, most=8.0)
    >>> all(0.5 <= pauses.next() <= 8.0 for _ in range(9))
    True
    """

    def __init__(self, first: float = 0.1, most: float = 5.0) -> None:
        self._first, self._most, self._now = first, most, first

    def next(self) -> float:
        """The next pause, in seconds."""
        pause, self._now = self._now, min(self._now * 2, self._most)
        return pause * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Starts again: something succeeded."""
        self._now = self._first


def retry_after(answer: Optional[Answer]) -> float:
    """For how long an answer asks to wait, in seconds, a minute at most."""
    text = "" if answer is None else answer.headers.get("retry-after", "")
    return min(float(text), RETRY_AFTER_MAX) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0
