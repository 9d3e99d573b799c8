"""A worker whose handlers are coroutines."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from typing import Any, Dict, Optional

from ..received import Handler, Retry
from .held import Held
from .signals import Signals
from .worker import Worker


class AsyncWorker(Worker):
    """The same worker, for handlers that are coroutines. They run in the event loop that calls `run`.

    Fetching, renewing and settling stay in threads. So a handler that blocks the loop costs no lease. ::

        worker = AsyncWorker("http://127.0.0.1:7411", os.environ["NODE_TOKEN"], concurrency=50)

        @worker.handle("order.placed")
        async def placed(message):
            await reserve(message.payload["order"])

        asyncio.run(worker.run_async())
    """

    _loop: Optional[asyncio.AbstractEventLoop] = None

    async def run_async(self, *, signals: bool = True) -> None:
        """Works until `stop` is called, or the program gets SIGTERM or SIGINT; see `Worker.run`."""
        loop = self._loop = asyncio.get_running_loop()
        self._running: Dict[str, "Future[Any]"] = {}
        ended: "asyncio.Future[None]" = loop.create_future()
        problem: Optional[BaseException] = None

        def finish() -> None:
            if not ended.done():
                ended.set_result(None)

        def work() -> None:
            nonlocal problem
            try:
                Worker.run(self, signals=False)
            except BaseException as error:
                problem = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish)

        with Signals(self.stop, is_on=signals):
            thread = threading.Thread(target=work, name="postroom-async", daemon=True)
            thread.start()
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                self.stop()
                await ended
                raise
        if problem:
            raise problem

    def run(self, *, signals: bool = True) -> None:
        """Runs it in a new event loop."""
        asyncio.run(self.run_async(signals=signals))

    def _call(self, handler: Handler, held: Held) -> Any:
        assert self._loop is not None
        running = asyncio.run_coroutine_threadsafe(handler(held.message), self._loop)
        self._running[held.lease] = running
        if held.stop.cancelled:
            running.cancel()
        try:
            return running.result()
        except (CancelledError, asyncio.CancelledError):
            raise Retry(why="the handler was cancelled") from None
        finally:
            self._running.pop(held.lease, None)

    def _gave_up(self, held: Held) -> None:
        running = self._running.get(held.lease)
        if running is not None:
            running.cancel()
