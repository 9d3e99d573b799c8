"""Requests with a token and JSON, repeated while the node cannot answer."""

from __future__ import annotations

import json
import ssl
import time
from typing import Any, Callable, Dict, Mapping, Optional

from .._version import __version__
from ..errors import NoAnswer, Refused, Unavailable
from .address import Address
from .pool import Answer, Interrupt, Pool
from .problem import parsed, refusal
from .retry import Backoff, retry_after

USER_AGENT = f"postroom-python/{__version__}"


class Session:
    """A node's address and a token for it. It prints neither the token nor what is sent."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        tls: Optional[ssl.SSLContext] = None,
        allow_unencrypted: bool = False,
    ) -> None:
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("the token is not valid; use the text that `postroom token` printed")
        self.address = Address.parse(url, allow_unencrypted=allow_unencrypted)
        self.retry_for = retry_for
        self._pool = Pool(self.address, timeout, tls)
        self._headers = {"authorization": f"Bearer {token}", "user-agent": USER_AGENT}
        self._pause: Callable[[float], None] = time.sleep

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address.origin!r})"

    def send(
        self,
        method: str,
        path: str,
        body: Optional[str] = None,
        *,
        headers: Optional[Mapping[str, str]] = None,
        longer: float = 0.0,
        interrupt: Optional[Interrupt] = None,
        on_repeat: Optional[Callable[[], None]] = None,
    ) -> Answer:
        """Sends one request, once."""
        all_headers: Dict[str, str] = {**self._headers, **(headers or {})}
        if body is not None:
            all_headers["content-type"] = "application/json"
        data = None if body is None else body.encode()
        return self._pool.request(
            method, path, all_headers, data, longer=longer, interrupt=interrupt, on_repeat=on_repeat
        )

    def call(
        self,
        method: str,
        path: str,
        body: Optional[str] = None,
        *,
        headers: Optional[Mapping[str, str]] = None,
        longer: float = 0.0,
        retry_for: Optional[float] = None,
        on_repeat: Optional[Callable[[], None]] = None,
    ) -> Dict[str, Any]:
        """The JSON of a successful answer. It repeats the request while the node is unavailable.

        So only requests may be sent that may arrive twice. `on_repeat` is called for each repetition.
        """
        until = time.monotonic() + (self.retry_for if retry_for is None else retry_for)
        backoff = Backoff()
        while True:
            answer: Optional[Answer] = None
            problem: Exception
            try:
                answer = self.send(method, path, body, headers=headers, longer=longer, on_repeat=on_repeat)
                if 200 <= answer.status < 300:
                    return _object(answer)
                problem = refusal(answer)
            except NoAnswer as error:
                problem = error
            if not isinstance(problem, (NoAnswer, Unavailable)):
                raise problem
            pause = max(backoff.next(), retry_after(answer))
            if time.monotonic() + pause > until:
                raise problem
            self._pause(pause)
            if on_repeat:
                on_repeat()

    def close(self) -> None:
        """Closes the connections that are open and idle."""
        self._pool.close()


def _object(answer: Answer) -> Dict[str, Any]:
    told = parsed(answer)
    if not isinstance(told, dict):
        advice = "check that the URL is that of a node's HTTP API"
        raise Refused(answer.status, "the answer is no JSON object", advice=advice)
    return told


def dumped(value: Any) -> str:
    """JSON as the node takes it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
