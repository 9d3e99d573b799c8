"""Where things are."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
REPOSITORY = PACKAGE.parent.parent
VECTORS = REPOSITORY / "crates/postroom-services/vectors"
BINARY = Path(os.environ.get("POSTROOM_BIN") or REPOSITORY / "target/debug/postroom")
