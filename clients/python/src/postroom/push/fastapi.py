"""A FastAPI router for a `PushReceiver`. It needs the extra `fastapi`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from .receiver import PushReceiver


def router(receiver: PushReceiver, path: str = "/messages") -> APIRouter:
    """The router, with one route. Handlers may be coroutines; the others run in threads. ::

    app = fastapi.FastAPI()
    app.include_router(postroom.push.fastapi.router(receiver))
    """
    made = APIRouter()

    async def receive(request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > receiver.body_max:
                answer = receiver.too_large()
                break
        else:
            answer = await receiver.handle_async(request.headers.items(), bytes(body))
        return Response(answer.body, answer.status, dict(answer.headers))

    # The route takes what it is given: FastAPI is to make no model of it.
    made.add_api_route(path, receive, methods=["POST"], response_model=None, include_in_schema=False)
    return made
