"""When two answers are the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from string import ascii_lowercase

_OPENING = " \t\n\"'`([{<*"
_CLOSING = " \t\n\"'`)]}>*.,;:!?"
_LETTER = re.compile(r"[(\[]?([a-z])[)\]]?[.:)]?")
_LETTERED = re.compile(r"[(\[]?([a-z])[)\].:]+\s*(.+)")


def normalise_answer(text: str, options: Sequence[str] = ()) -> str:
    """What is compared of an answer; for one of the `options` its letter in brackets, "(a)".

    Case, Unicode width, runs of white space, and punctuation around the whole are ignored; signs,
    units and a leading decimal point are not. With options, an answer names one by its text, by its
    letter ("A", "(A)", "A.", "A:") or by both ("A. red"); text goes before letter, and a letter
    that contradicts its text names none. No synonyms, articles or number words are understood.
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    bare = _strip(plain)
    texts = [normalise_answer(option) for option in options]
    if bare in texts:
        return f"({ascii_lowercase[texts.index(bare)]})"
    letters = ascii_lowercase[: len(texts)]
    alone = _LETTER.fullmatch(_strip(plain, keep="()[]"))
    if alone and alone[1] in letters:
        return f"({alone[1]})"
    both = _LETTERED.fullmatch(plain.lstrip("\"'`* "))
    if both and both[1] in letters and texts[letters.index(both[1])] == _strip(both[2]):
        return f"({both[1]})"
    return bare


def names_option(text: str, options: Sequence[str]) -> bool:
    """Whether the answer names one of the options, by its text, its letter or both."""
    return re.fullmatch(r"\([a-z]\)", normalise_answer(text, options)) is not None


def same_answer(one: str | None, other: str | None, options: Sequence[str] = ()) -> bool:
    """Whether both are answers and equal once normalised; blank answers equal nothing."""
    if one is None or other is None:
        return False
    normalised = normalise_answer(one, options)
    return normalised != "" and normalised == normalise_answer(other, options)


def _strip(text: str, keep: str = "") -> str:
    opening = "".join(mark for mark in _OPENING if mark not in keep)
    closing = "".join(mark for mark in _CLOSING if mark not in keep)
    return text.lstrip(opening).rstrip(closing)
