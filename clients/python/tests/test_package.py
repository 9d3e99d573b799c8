"""The package as people get it: the wheel, the program in it, and a program of a stranger."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any, List

import pytest

import postroom

from .conftest import StartNode
from .node import PATIENCE, TOKEN, free_port
from .paths import PACKAGE
from .test_push_node import write_secret


@pytest.fixture
def wheel() -> Path:
    """The wheel that run-tests built."""
    named = os.environ.get("POSTROOM_WHEEL")
    if not named:
        pytest.skip("POSTROOM_WHEEL names no wheel: clients/python/run-tests builds one")
    return Path(named)


def fresh(folder: Path, wheel: Path) -> Path:
    """An environment with this wheel and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=PATIENCE)
    python = folder / "bin/python"
    install: List[Any] = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", wheel]
    subprocess.run(install, check=True, timeout=PATIENCE, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return python


def test_the_tests_use_the_installed_package() -> None:
    if os.environ.get("POSTROOM_WHEEL"):
        assert Path(postroom.__file__).is_relative_to(Path(sysconfig.get_path("purelib")))


def test_a_wheel_without_a_program_is_pure_and_needs_nothing(wheel: Path) -> None:
    assert wheel.name == "postroom-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as contents:
        names = contents.namelist()
        about = contents.read("postroom-0.1.0.dist-info/METADATA").decode()
    assert "postroom/py.typed" in names and not [name for name in names if ".data/" in name or "tests" in name]
    assert {"postroom-0.1.0.dist-info/licenses/LICENSE-MIT", "postroom-0.1.0.dist-info/licenses/LICENSE-APACHE"} <= set(
        names
    )
    assert "License-Expression: MIT OR Apache-2.0" in about and "Requires-Python: >=3.9" in about
    needed = re.findall(r"^Requires-Dist: (.*)$", about, re.MULTILINE)
    assert needed and all("extra ==" in each for each in needed)


def test_a_wheel_with_a_program_installs_it_as_a_command(wheel: Path, tmp_path: Path) -> None:
    program = tmp_path / "built"
    shutil.copy("/bin/echo", program)
    build: List[Any] = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    environment = {**os.environ, "POSTROOM_BINARY": str(program)}
    subprocess.run(build, cwd=PACKAGE, env=environment, check=True, capture_output=True, timeout=PATIENCE)
    [made] = tmp_path.glob("*.whl")
    assert re.fullmatch(r"postroom-0\.1\.0-py3-none-manylinux_2_\d+_\w+\.whl", made.name)
    python = fresh(tmp_path / "venv", made)
    command = python.parent / "postroom"
    assert command.read_bytes() == program.read_bytes(), "the program itself, and no script around it"
    said = subprocess.run([command, "it", "runs"], check=True, capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout == "it runs\n"
    subprocess.run([python, "-c", "import postroom"], check=True, timeout=PATIENCE)
    environment["POSTROOM_BINARY"] = str(tmp_path / "missing")
    refused = subprocess.run(build, cwd=PACKAGE, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode and "is no program" in refused.stdout + refused.stderr


def test_the_sdist_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    [sdist] = wheel.parent.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", str(sdist), "-C", str(tmp_path)], check=True, timeout=PATIENCE)
    build: List[Any] = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    environment = {name: value for name, value in os.environ.items() if name != "POSTROOM_BINARY"}
    source = tmp_path / "postroom-0.1.0"
    subprocess.run(build, cwd=source, env=environment, check=True, capture_output=True, timeout=PATIENCE)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(tmp_path / wheel.name) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


def test_the_platform_of_a_program_is_read_from_it(wheel: Path, tmp_path: Path) -> None:
    sys.path.insert(0, str(PACKAGE))
    try:
        from hatch_build import platform_of
    finally:
        sys.path.pop(0)
    program = tmp_path / "program"
    for machine, name in [(62, "x86_64"), (183, "aarch64")]:
        head = b"\x7fELF" + b"\0" * 14 + machine.to_bytes(2, "little")
        for more, tag in [
            (b"GLIBC_2.5\0GLIBC_2.34\0GLIBC_2.4", f"manylinux_2_34_{name}"),
            (b"GLIBC_2.5", f"manylinux_2_17_{name}"),
            (b"", f"manylinux_2_17_{name}.musllinux_1_1_{name}"),
        ]:
            program.write_bytes(head + more)
            assert platform_of(program) == tag


def test_the_program_of_a_stranger_works_with_the_wheel_alone(wheel: Path, node: StartNode, tmp_path: Path) -> None:
    python = fresh(tmp_path / "venv", wheel)
    secret, port = write_secret(tmp_path), free_port()
    handler = f'url = "http://127.0.0.1:{port}/"\nsecret = {{ file = "{tmp_path}/handler.key" }}'
    one = node(f'[handlers."order.placed"]\npull = true\n[handlers."order.paid"]\n{handler}\n')
    program = PACKAGE / "examples/stranger.py"
    assert len(program.read_text().splitlines()) < 40
    said = subprocess.run(
        [str(each) for each in [python, "-I", "-W", "error", program, one.path, one.url, port]],
        env={**os.environ, "NODE_TOKEN": TOKEN, "HANDLER_SECRET": secret},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert said.stdout.splitlines() == ["{'seen': 'order.placed'}", "{'seen': 'order.paid'}", "(2,)"], said.stderr


def test_the_examples_of_the_readme_are_python() -> None:
    text = (PACKAGE / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 10
    for block in blocks:
        tree = ast.parse(block)
        assert len(block.splitlines()) <= 16, block
        for name in names_of_the_package(tree):
            assert hasattr(postroom, name), f"postroom.{name}"


def names_of_the_package(tree: Any) -> List[str]:
    """What is used as `postroom.name`, or imported from it."""
    used = [
        each.attr
        for each in ast.walk(tree)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "postroom"
    ]
    imported = [
        alias.name
        for each in ast.walk(tree)
        if isinstance(each, ast.ImportFrom) and each.module == "postroom"
        for alias in each.names
    ]
    return used + imported
