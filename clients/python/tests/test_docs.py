"""The examples in the docstrings."""

from __future__ import annotations

import doctest
import importlib.metadata
import pkgutil
from typing import List

import pytest

import postroom


def modules() -> List[str]:
    return [each.name for each in pkgutil.walk_packages(postroom.__path__, "postroom.")]


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert failed == 0


def test_everything_public_has_a_docstring() -> None:
    for name in postroom.__all__:
        assert getattr(postroom, name).__doc__, name


def test_there_is_one_version() -> None:
    assert postroom.__version__ == importlib.metadata.version("postroom") == "0.1.0"
