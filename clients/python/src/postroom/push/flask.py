"""A Flask blueprint for a `PushReceiver`. It needs the extra `flask`."""

from __future__ import annotations

import flask

from .receiver import PushReceiver


def blueprint(receiver: PushReceiver, path: str = "/messages", *, name: str = "postroom") -> flask.Blueprint:
    """The blueprint, with one route. ::

    app = flask.Flask(__name__)
    app.register_blueprint(postroom.push.flask.blueprint(receiver))
    """
    made = flask.Blueprint(name, __name__)

    def receive() -> flask.Response:
        request = flask.request
        if (request.content_length or 0) > receiver.body_max:
            response = receiver.too_large()
        else:
            request.max_content_length = receiver.body_max
            response = receiver.handle(list(request.headers.items()), request.get_data(cache=False))
        return flask.Response(response.body, response.status, dict(response.headers))

    made.add_url_rule(path, "receive", receive, methods=["POST"])
    return made
