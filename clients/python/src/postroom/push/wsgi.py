"""A WSGI application for a `PushReceiver`, for any server of that kind."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple

from .receiver import PushReceiver
from .response import Response, text

Environ = Dict[str, Any]
StartResponse = Callable[..., Any]


def wsgi(receiver: PushReceiver) -> Callable[[Environ, StartResponse], Iterable[bytes]]:
    """The application. ::

    from wsgiref.simple_server import make_server

    make_server("127.0.0.1", 8080, wsgi(receiver)).serve_forever()
    """

    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        response = _answer(receiver, environ)
        status = HTTPStatus(response.status)
        headers: List[Tuple[str, str]] = list(response.headers.items())
        if response.status != HTTPStatus.NO_CONTENT:
            headers.append(("content-length", str(len(response.body))))
        start_response(f"{status.value} {status.phrase}", headers)
        return [response.body]

    return application


def _answer(receiver: PushReceiver, environ: Environ) -> Response:
    if environ.get("REQUEST_METHOD") != "POST":
        return text(405, "use POST", {"allow": "POST"})
    length = environ.get("CONTENT_LENGTH") or ""
    if not (length.isascii() and length.isdigit()):
        return text(411, "the length of the body is missing")
    if int(length) > receiver.body_max:
        return receiver.too_large()
    return receiver.handle(headers_of(environ), environ["wsgi.input"].read(int(length)))


def headers_of(environ: Environ) -> Iterator[Tuple[str, str]]:
    """The headers of a request."""
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            yield name[len("HTTP_") :].replace("_", "-"), value
    if environ.get("CONTENT_TYPE"):
        yield "content-type", environ["CONTENT_TYPE"]
