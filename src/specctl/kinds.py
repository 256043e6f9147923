"""What the value of a setting may be, said once for flags, variables and files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """`words` completes "must be ..."; `accepts` says whether a value is right."""

    words: str
    accepts: Callable[[Any], bool]


def choice(words: Iterable[str]) -> Kind:
    """One of these words."""
    names = tuple(str(word) for word in words)
    return Kind(f"one of {', '.join(names)}", lambda value: value in names)


def number(words: str, is_right: Callable[[float], bool]) -> Kind:
    """A finite number for which `is_right` holds."""

    def accepts(value: Any) -> bool:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and math.isfinite(value) and is_right(value)

    return Kind(words, accepts)


def at_least(least: int) -> Kind:
    """A whole number that is not smaller than `least`."""
    return Kind(
        f"a whole number, at least {least}", lambda value: type(value) is int and value >= least
    )


TEXT = Kind("a text that is not empty", lambda value: isinstance(value, str) and value != "")
DEVICE = Kind(
    "auto, cpu, cuda or cuda:N",
    lambda value: (
        isinstance(value, str) and re.fullmatch(r"auto|cpu|cuda(:\d+)?", value) is not None
    ),
)
FILE = Kind("a path", lambda value: isinstance(value, (str, Path)) and str(value) != "")
SWITCH = Kind("true or false", lambda value: isinstance(value, bool))
