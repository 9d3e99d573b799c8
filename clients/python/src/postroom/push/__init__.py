"""Receiving the messages that a node posts."""

from .receiver import PushReceiver
from .response import Response
from .signature import new_secret
from .wsgi import wsgi

__all__ = ["PushReceiver", "Response", "new_secret", "wsgi"]
