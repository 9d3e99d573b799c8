"""Tells the node how messages ended: many at once, and again until it answers."""

from __future__ import annotations

import logging
import queue
import threading
from typing import Dict, List, Optional

from ..errors import NoAnswer, PostroomError, Refused
from ..http.retry import Backoff
from .api import Pull, Result, Settle
from .background import Background
from .held import InProgress

log = logging.getLogger("postroom.worker")

ITEMS_MAX = 1000
BYTES_MAX = 4 * 1024 * 1024
# The lease is lost: the message is settled, or another worker has it.
_LOST = 409
# It concerns the node, the token or the moment, and not the message.
_NOT_THE_ITEM = (401, 403, 404, 405, 408, 421, 425, 429)


class Settler(Background):
    """Settles the messages of one queue. While one request is on its way, others gather for the next."""

    def __init__(self, pull: Pull, name: str, in_progress: InProgress, backoff: Backoff) -> None:
        super().__init__(f"settle-{name}")
        self._pull, self._queue, self._in_progress, self._backoff = pull, name, in_progress, backoff
        self._asked: "queue.SimpleQueue[Optional[Settle]]" = queue.SimpleQueue()
        self._ended = threading.Event()

    def settle(self, settle: Settle) -> None:
        """Settles a message soon."""
        self._asked.put(settle)

    def end(self) -> None:
        """Ends the thread. What is not settled by now stays with the node, until its lease is over."""
        self._ended.set()
        self._asked.put(None)

    def run(self) -> None:
        """Settles until the end."""
        waiting: List[Settle] = []
        while not self._ended.is_set():
            waiting += self._gather(is_waiting=bool(waiting))
            waiting = self._settle_all(waiting)
            if waiting:
                self._ended.wait(self._backoff.next())
            else:
                self._backoff.reset()

    def _gather(self, is_waiting: bool) -> List[Settle]:
        gathered: List[Settle] = []
        try:
            while True:
                settle = self._asked.get(block=not gathered and not is_waiting)
                if settle is None:
                    break
                gathered.append(settle)
        except queue.Empty:
            pass
        return gathered

    def _settle_all(self, settles: List[Settle]) -> List[Settle]:
        """Settles them; returns those that have to be sent again."""
        by_verb: Dict[str, List[Settle]] = {}
        for settle in settles:
            by_verb.setdefault(settle.verb, []).append(settle)
        return [again for verb, some in by_verb.items() for part in _parts(some) for again in self._send(verb, part)]

    def _send(self, verb: str, settles: List[Settle]) -> List[Settle]:
        if self._ended.is_set():
            return []
        try:
            results = self._pull.settle(self._queue, verb, [settle.item for settle in settles])
        except Refused as error:
            if error.status >= 500 or error.status in _NOT_THE_ITEM:
                log.warning("the node does not take %s: %s", verb, error)
                return settles
            if len(settles) > 1:
                return [again for settle in settles for again in self._send(verb, [settle])]
            results = [Result(error)]
        except NoAnswer as error:
            log.warning("%s; %d messages are settled again", error, len(settles))
            return settles
        again = []
        for settle, (problem, _) in zip(settles, results):
            if problem is not None and problem.status >= 500:
                again.append(settle)
                continue
            if problem is not None:
                self._lost(settle, problem)
            self._in_progress.remove(settle.held)
        return again

    def _lost(self, settle: Settle, problem: PostroomError) -> None:
        settle.held.lose()
        message = settle.held.message
        is_lost = isinstance(problem, Refused) and problem.status == _LOST
        why = "the lease is lost" if is_lost else str(problem)
        log.warning("%s of message %s (%s) failed: %s", settle.verb, message.message_id, message.topic, why)


def _parts(settles: List[Settle]) -> List[List[Settle]]:
    """Requests that are not too large."""
    parts: List[List[Settle]] = []
    size = 0
    for settle in settles:
        if not parts or len(parts[-1]) == ITEMS_MAX or size + len(settle.item) > BYTES_MAX:
            parts.append([])
            size = 0
        parts[-1].append(settle)
        size += len(settle.item.encode())
    return parts
