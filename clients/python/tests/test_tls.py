"""A node behind TLS."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from postroom import Client, Message, NoAnswer, Worker

from .conftest import StartNode
from .node import PATIENCE, TOKEN


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for this machine, and its key beside it."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not there to make a certificate")
    made = tmp_path / "cert.pem"
    asked = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(tmp_path / "key.pem"), "-out", str(made)]
    subprocess.run(["openssl", *asked.split(), *names], check=True, capture_output=True, timeout=PATIENCE)
    (tmp_path / "key.pem").chmod(0o600)
    return made


def test_a_client_and_a_worker(node: StartNode, certificate: Path) -> None:
    key = certificate.with_name("key.pem")
    one = node('[handlers."*"]\npull = true\n', admin=f'tls_cert = "{certificate}"\ntls_key = "{key}"\n')
    url = one.url.replace("http://", "https://")
    tls = ssl.create_default_context(cafile=str(certificate))
    with Client(url, TOKEN, retry_for=0) as stranger, pytest.raises(NoAnswer, match="certificate verify failed"):
        stranger.enqueue("a", {})
    worker = Worker(url, TOKEN, tls=tls, wait=30)
    handled = threading.Event()

    @worker.handle("a")
    def handle(message: Message) -> str:
        handled.set()
        return "done"

    with Client(url, TOKEN, tls=tls) as client:
        worker.start()
        sent = client.enqueue("a", {})
        assert handled.wait(PATIENCE)
        assert client.wait(sent.message_id, timeout=60).answer == "done"
        began = time.monotonic()
        worker.end()
        assert time.monotonic() - began < 15, "it does not wait for the long poll"
        later = client.enqueue("a", {})
        assert client.status(later.message_id).state == "ready", "nobody claims any more"
