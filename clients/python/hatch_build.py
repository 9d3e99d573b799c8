"""Puts the program `postroom` into the wheel, if POSTROOM_BINARY names one.

The wheel is then for one platform, and installing it gives the command `postroom`: the program itself, and no script
around it. Without the variable the wheel is pure Python.

POSTROOM_PLATFORM sets the platform tag. By default it is made from the program: on Linux from the newest version of the
C library that it asks for, elsewhere it is that of this Python.
"""

from __future__ import annotations

import os
import platform
import re
import sysconfig
from pathlib import Path
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The oldest C libraries for which pip knows a tag.
OLDEST_GLIBC = (2, 17)
OLDEST_MUSL = (1, 1)


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the program to a wheel."""

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        """Called by hatchling before it builds."""
        named = os.environ.get("POSTROOM_BINARY")
        if self.target_name != "wheel" or version == "editable" or not named:
            return
        binary = Path(named).resolve()
        if not binary.is_file() or not os.access(binary, os.X_OK):
            raise SystemExit(f"POSTROOM_BINARY: {binary} is no program")
        is_windows = binary.suffix.lower() == ".exe"
        build_data["shared_scripts"][str(binary)] = "postroom.exe" if is_windows else "postroom"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ.get('POSTROOM_PLATFORM') or platform_of(binary)}"


def platform_of(binary: Path) -> str:
    """The tag of the platforms on which the program runs."""
    program = binary.read_bytes()
    if not program.startswith(b"\x7fELF"):
        return re.sub(r"[-.]", "_", sysconfig.get_platform())
    machine = {62: "x86_64", 183: "aarch64"}.get(int.from_bytes(program[18:20], "little"), platform.machine())
    asked = [(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", program)]
    if asked:
        return "manylinux_{}_{}_{}".format(*max([*asked, OLDEST_GLIBC]), machine)
    # It is linked statically, or with musl.
    return "manylinux_{}_{}_{}.musllinux_{}_{}_{}".format(*OLDEST_GLIBC, machine, *OLDEST_MUSL, machine)
