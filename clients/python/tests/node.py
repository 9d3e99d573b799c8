"""A real node, on a database of its own."""

from __future__ import annotations

import hashlib
import queue
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import List, Optional

from .paths import BINARY

TOKEN = "a-token-for-tests"
PATIENCE = 60
READY = "serves the HTTP API at "


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def migrate(db: str) -> None:
    subprocess.run([BINARY, "migrate", "--db", db], check=True, capture_output=True, timeout=PATIENCE)


class Node:
    """`postroom up` in a folder. It can be killed and started again, at the same address."""

    def __init__(self, folder: Path, more: str = "", *, db: str = "node.db", may: str = "", admin: str = "") -> None:
        self.folder, self.db = folder, db
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        scopes = may or '"enqueue", "pull", "payload", "operate"'
        text = f'[store]\nurl = "{db}"\n[admin]\nlisten = "127.0.0.1:{self.port}"\n{admin}'
        text += f'[tokens.test]\ndigests = ["{digest}"]\nmay = [{scopes}]\n'
        text += "" if "[receiver]" in more else "[receiver]\nlisten = []\n"
        (folder / "postroom.toml").write_text(text + more)
        self.said: "queue.Queue[Optional[str]]" = queue.Queue()
        self.log: List[str] = []
        self._process: Optional["subprocess.Popen[str]"] = None

    @property
    def path(self) -> Path:
        return self.folder / self.db

    def start(self) -> Node:
        self._process = subprocess.Popen(
            [BINARY, "up"], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._read, args=[self._process], daemon=True).start()
        self.wait_for(READY)
        return self

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self.log.append(line)
                self.said.put(line)
        self.said.put(None)

    def wait_for(self, text: str) -> str:
        while True:
            line = self.said.get(timeout=PATIENCE)
            assert line is not None, f"the node has ended: {''.join(self.log)}"
            if text in line:
                return line

    def kill(self) -> None:
        """SIGKILL: nothing is finished or written down."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process:
            process.send_signal(number)
            process.wait(PATIENCE)
            while self.said.get(timeout=PATIENCE) is not None:
                pass
