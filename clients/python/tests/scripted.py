"""A server whose answers a test decides."""

from __future__ import annotations

import json
import queue
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Optional, Tuple

Said = Tuple[int, Dict[str, str], bytes]


@dataclass(frozen=True)
class Asked:
    """A request that arrived."""

    method: str
    path: str
    headers: Dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def said(status: int, body: Any = None, **headers: str) -> Said:
    given = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return status, given, b"" if body is None else json.dumps(body).encode()


class Scripted:
    """Answers each request by the script. None breaks the connection without an answer."""

    def __init__(self, script: Callable[[Asked], Optional[Said]]) -> None:
        self.asked: List[Asked] = []
        self.news: "queue.Queue[Asked]" = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(handler) -> None:  # noqa: N805
                length = int(handler.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in handler.headers.items()}
                asked = Asked(handler.command, handler.path, headers, handler.rfile.read(length))
                self.asked.append(asked)
                self.news.put(asked)
                answer = script(asked)
                if answer is None:
                    handler.close_connection = True
                    return
                status, given, body = answer
                handler.send_response(status)
                for name, value in {**given, "content-length": str(len(body))}.items():
                    handler.send_header(name, value)
                handler.end_headers()
                handler.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True)
        self._thread.start()

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def in_turn(*answers: Optional[Said]) -> Callable[[Asked], Optional[Said]]:
    """One answer after the other."""
    left = iter(answers)
    return lambda _: next(left)
