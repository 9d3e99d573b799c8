"""A WSGI server in a thread, for a node to post to."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, Iterator
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


@contextmanager
def serving(application: Any, port: int = 0) -> Iterator[str]:
    server = make_server("127.0.0.1", port, application, server_class=Threads, handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
