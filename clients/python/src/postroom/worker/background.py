"""Something that runs in a thread of its own."""

from __future__ import annotations

import threading
from typing import Optional


class Background:
    """Runs `run` in a thread that does not keep the program alive."""

    def __init__(self, name: str) -> None:
        self._background = threading.Thread(target=self.run, name=f"postroom-{name}", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._background.start()

    def join(self, timeout: Optional[float] = None) -> None:
        """Waits for the end of the thread."""
        self._background.join(timeout)

    def run(self) -> None:
        """What the thread does."""
        raise NotImplementedError
