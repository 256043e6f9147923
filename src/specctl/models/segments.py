"""What a prompt is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from specctl.images import Image


@dataclass(frozen=True, slots=True)
class Control:
    """Text of ours or of the checkpoint's template, in which control tokens mean what they say."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Text from outside (questions, tool output): never becomes a control token."""

    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An image; the model adds its own vision markers and placeholders."""

    image: Image


Segment = Union[Control, Text, Picture]
Segments = tuple[Segment, ...]
