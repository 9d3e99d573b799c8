"""Where to connect to, and whether that is safe."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Address:
    """A checked URL: scheme, host, port and a path without a slash at its end."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str, *, allow_unencrypted: bool = False) -> Address:
        """Checks a URL. Its text is never part of an error: it may hold a password.

        >>> Address.parse("http://127.0.0.1:7411/")
        Address(scheme='http', host='127.0.0.1', port=7411, path='')
        """
        wanted = "use one like https://node.example:7411"
        try:
            parts = urlsplit(url)
            port = parts.port
        except (ValueError, AttributeError, TypeError):
            raise ValueError(f"the URL is not valid; {wanted}") from None
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise ValueError(f"the URL has no http:// or https:// or no host; {wanted}")
        if parts.username is not None or parts.password is not None:
            raise ValueError(f"the URL has a user or a password; {wanted}")
        if parts.query or parts.fragment or any(ord(sign) <= 32 or ord(sign) == 127 for sign in url):
            raise ValueError(f"the URL has a query, a fragment or a blank; {wanted}")
        if parts.scheme == "http" and not allow_unencrypted and not _is_this_machine(parts.hostname):
            raise ValueError(
                "http:// to another machine would send tokens and messages in clear; use https://, or set "
                "allow_unencrypted=True if something else protects the way"
            )
        return cls(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))

    @property
    def origin(self) -> str:
        """The URL without its path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
