"""The fields of a row, from whatever JSON value or table cell stands there to checked values."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

MAX_OPTIONS = len(string.ascii_uppercase)
LETTERS = string.ascii_uppercase


class FieldError(Exception):
    """A field that cannot be used; `code` begins with `input.`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def text(name: str, value: Any) -> str | None:
    """A text that is not blank, None where there is none."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise _mistyped(name, "text", value)
    return _encodable(name, value) if value.strip() else None


def scalar(name: str, value: Any) -> str | None:
    """A text, or a number as text; None where there is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, type(None))):
        raise _mistyped(name, "text or a number", value)
    return text(name, value if value is None else str(value))


def identity(value: Any) -> str | None:
    """A row's id: a text or a whole number."""
    if isinstance(value, (bool, float)) or not isinstance(value, (str, int, type(None))):
        raise _mistyped("id", "text or a whole number", value)
    return None if value is None else str(value) or None


def option_list(value: Any) -> tuple[str, ...]:
    """The options of a row: a list, or an object with the letters A, B, C, ... as keys."""
    if isinstance(value, Mapping):
        value = _by_letter(value)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _mistyped("options", "a list, or an object with keys A, B, C", value)
    options = [scalar("options", option) for option in value]
    while options and options[-1] is None:
        options.pop()
    if None in options:
        raise FieldError("input.bad_options", "one of 'options' is blank")
    if len(options) > MAX_OPTIONS:
        message = f"{len(options)} options, at most {MAX_OPTIONS} can be lettered"
        raise FieldError("input.bad_options", message)
    return tuple(option for option in options if option is not None)


def _by_letter(options: Mapping[str, Any]) -> list[Any]:
    """Values in the order of their letters, which must run from A without a gap."""
    pairs = [(str(key).strip().upper(), value) for key, value in _filled(options)]
    ordered = sorted(pairs, key=lambda pair: pair[0])
    letters = [letter for letter, _ in ordered]
    if letters != list(LETTERS[: len(letters)]):
        found = ", ".join(map(str, options))[:60]
        message = f"the keys of 'options' must run A, B, C, ... without a gap, found {found}"
        raise FieldError("input.bad_options", message)
    return [value for _, value in ordered]


def _filled(options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in options.items() if value not in (None, "")]


def _encodable(name: str, value: str) -> str:
    """Half a surrogate pair is no text: tokenizers cannot take it."""
    if name == "image":
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        message = f"'{name}' holds bytes or escapes that are not Unicode text; save it as UTF-8"
        raise FieldError("input.encoding", message) from None
    return value


def _mistyped(name: str, expected: str, value: Any) -> FieldError:
    kinds = {bool: "true/false", int: "a number", float: "a number", str: "text", list: "a list"}
    kind = kinds.get(type(value), "an object")
    return FieldError("input.wrong_type", f"'{name}' must be {expected}, not {kind}")
