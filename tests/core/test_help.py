"""What help() says of enumerations: it shows class docstrings, and nothing that stands below a member."""

from __future__ import annotations

import enum
import importlib
import pkgutil
import re

import pytest

from infernix_core import engine, interfaces, random


def public_enumerations() -> list[type[enum.Enum]]:
    modules = [
        importlib.import_module(found.name)
        for package in (interfaces, engine)
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    return sorted(
        {
            value
            for module in (*modules, random)
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, enum.Enum)
            if value.__module__ == module.__name__
        },
        key=lambda kind: kind.__name__,
    )


@pytest.mark.parametrize("kind", public_enumerations(), ids=lambda kind: kind.__name__)
def test_the_help_of_an_enumeration_says_what_each_member_means(kind: type[enum.Enum]) -> None:
    for member in kind:
        assert re.search(rf"^ *{member.name}: [A-Z]", kind.__doc__, re.MULTILINE), member
