"""Text from images, models and users, made safe to show: never markup, never terminal escapes."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, get_character_cell_size, set_cell_size
from rich.text import Text

_REPLACED = ("Cc", "Cf", "Cs", "Zl", "Zp", "Co")
_JOINERS = "\u200c\u200d"
"""Invisible, harmless and needed: scripts and emoji are joined with them."""


def clean(text: str) -> str:
    """One line without control characters; each stretch of white space becomes one space."""
    spaced = " ".join(text.split()) if _has_breaks(text) else text
    return "".join(map(_shown, spaced))


def _has_breaks(text: str) -> bool:
    return any(mark in text for mark in "\n\r\t\v\f")


def clean_block(text: str) -> str:
    """As `clean`, with line breaks and tabs kept: for an answer on standard output."""
    return "".join(char if char in "\n\t" else _shown(char) for char in text)


def _shown(char: str) -> str:
    if char in _JOINERS or unicodedata.category(char) not in _REPLACED:
        return char
    return "\N{REPLACEMENT CHARACTER}"


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in at most `width` cells, its end cut off with an ellipsis."""
    if cell_len(text) <= width:
        return text
    room = max(0, width - cell_len(ellipsis))
    return set_cell_size(text, room).rstrip() + ellipsis


def fit_tail(text: str, width: int, ellipsis: str = "…") -> str:
    """The end of `text` in at most `width` cells, with an ellipsis before it if it was cut."""
    if cell_len(text) <= width:
        return text
    room, kept = max(0, width - cell_len(ellipsis)), 0
    for index in range(len(text) - 1, -1, -1):
        kept += get_character_cell_size(text[index])
        if kept > room:
            return ellipsis + text[index + 1 :].lstrip()
    return text


def row(left: Text, right: str, width: int, style: str = "dim") -> Text:
    """`left`, and `right` at the right margin; `right` is dropped where both do not fit."""
    gap = width - left.cell_len - cell_len(right)
    if right and gap >= 2:
        left.append(" " * gap)
        left.append(right, style=style)
    return left


def seconds(nanoseconds: int) -> str:
    """A duration with at most three digits: `7 ms`, `0.41 s`, `12.3 s`."""
    value = nanoseconds / 1e9
    if value < 0.0995:
        return f"{value * 1000:.0f} ms" if value >= 0.00095 else "<1 ms"
    return (
        f"{value:.2f} s"
        if value < 9.995
        else f"{value:.1f} s"
        if value < 99.95
        else f"{value:.0f} s"
    )


def number(value: float | None, digits: int = 2) -> str:
    """A number for people; what is not one is said in words."""
    if value is None:
        return "none"
    if value != value:
        return "not a number"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return f"{value:.{digits}f}"


def plural(count: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
