"""Failures that a user can act on, each with its exit code and, for rows, a stable error code.

Bugs of ours are plain exceptions and asserts; everything here is somebody's input, machine or
budget.
"""

from __future__ import annotations

from typing import ClassVar


class SpecctlError(Exception):
    """A failure explained in one line: what is wrong and where; `hint` says what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint


class UsageError(SpecctlError):
    """Flags or settings that contradict each other or name nothing that exists."""

    exit_code = 2


class InputError(SpecctlError):
    """An image, question or file that cannot be used; `code` begins with `input.`."""

    exit_code = 3


class ModelError(SpecctlError):
    """A model that cannot be loaded or run; `code` begins with `model.`."""

    exit_code = 4


class BudgetError(SpecctlError):
    """A spent budget of turns, tokens or time; `code` begins with `budget.`."""

    exit_code = 5


class StateError(SpecctlError):
    """Files left by an earlier or another run that contradict what is asked for now."""

    exit_code = 9
