"""Connections that are kept open, shared by threads."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Callable, List, Mapping, Optional, Tuple

from ..errors import NoAnswer
from .address import Address

# The other side closes an idle connection after a minute or two.
IDLE_MAX = 45.0
KEPT_MAX = 32
ANSWER_MAX = 64 * 1024 * 1024
_PART = 64 * 1024


@dataclass(frozen=True)
class Answer:
    """An answer: its status, its headers in lower case, its body."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Interrupt:
    """Ends a request that waits for its answer, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self.is_set = False

    def set(self) -> None:
        """Tells the other side that nobody waits any more. An answer that is on its way still arrives."""
        with self._lock:
            self.is_set = True
            self._end()

    def _end(self) -> None:
        if self._socket is not None:
            # Not the method of a TLS socket: it would read what still arrives without decrypting it.
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_WR)

    def _watch(self, conn: Optional[http.client.HTTPConnection]) -> None:
        with self._lock:
            self._socket = None if conn is None else conn.sock
            if self.is_set:
                self._end()


class Pool:
    """Sends requests to one address. It follows no redirect, and uses no proxy of the environment."""

    def __init__(self, address: Address, timeout: float, tls: Optional[ssl.SSLContext] = None) -> None:
        self._address, self._timeout = address, timeout
        self._tls = tls or ssl.create_default_context() if address.scheme == "https" else None
        self._lock = threading.Lock()
        self._idle: List[Tuple[http.client.HTTPConnection, float]] = []

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Optional[bytes] = None,
        *,
        longer: float = 0.0,
        interrupt: Optional[Interrupt] = None,
        on_repeat: Optional[Callable[[], None]] = None,
    ) -> Answer:
        """Sends a request and reads the answer. It may take `longer` than the usual time.

        A connection that was idle may be closed by the other side at any moment; then the request is sent once more.
        """
        target = self._address.path + path
        while True:
            conn, is_used = self._take()
            try:
                answer = self._exchange(conn, method, target, headers, body, longer, interrupt)
            except (http.client.RemoteDisconnected, ConnectionError, BrokenPipeError) as error:
                conn.close()
                if is_used and not (interrupt and interrupt.is_set):
                    if on_repeat:
                        on_repeat()
                    continue
                raise _no_answer(self._address, error) from error
            except (OSError, http.client.HTTPException) as error:
                conn.close()
                raise _no_answer(self._address, error) from error
            except BaseException:
                conn.close()
                raise
            self._give_back(conn)
            return answer

    def close(self) -> None:
        """Closes the connections that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for conn, _ in idle:
            conn.close()

    def _exchange(
        self,
        conn: http.client.HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        longer: float,
        interrupt: Optional[Interrupt],
    ) -> Answer:
        if conn.sock is None:
            conn.connect()
        conn.sock.settimeout(self._timeout + longer)
        if interrupt:
            interrupt._watch(conn)
        try:
            # If the connection breaks here, the other side may have answered before it read all: with 413, for example.
            with suppress(BrokenPipeError, ConnectionResetError):
                conn.request(method, target, body, dict(headers))
            response = conn.getresponse()
            read = bytearray()
            for part in iter(lambda: response.read(_PART), b""):
                read += part
                if len(read) > ANSWER_MAX:
                    raise http.client.HTTPException(f"the answer is longer than {ANSWER_MAX} bytes")
        finally:
            if interrupt:
                interrupt._watch(None)
        if response.will_close or (interrupt and interrupt.is_set):
            conn.close()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, bytes(read))

    def _take(self) -> Tuple[http.client.HTTPConnection, bool]:
        oldest = time.monotonic() - IDLE_MAX
        with self._lock:
            while self._idle:
                conn, since = self._idle.pop()
                if since > oldest:
                    return conn, True
                conn.close()
        host, port = self._address.host, self._address.port
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=self._timeout), False
        return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._tls), False

    def _give_back(self, conn: http.client.HTTPConnection) -> None:
        with self._lock:
            if conn.sock is not None and len(self._idle) < KEPT_MAX:
                self._idle.append((conn, time.monotonic()))
                return
        conn.close()


def _no_answer(address: Address, error: Exception) -> NoAnswer:
    return NoAnswer(f"no answer from {address.origin}: {type(error).__name__}: {error}")
