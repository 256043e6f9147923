"""What every way of showing a query offers beside taking its events."""

from __future__ import annotations

from typing import Protocol, TextIO

from specctl.events import Event
from specctl.render.text import clean


class View(Protocol):
    """A sink that can also show a warning, and is closed once, whatever happened."""

    def handle(self, query_id: str, event: Event, at_ns: int) -> None: ...

    def warn(self, message: str) -> None: ...

    def close(self) -> None: ...


class Warnings:
    """Shows nothing but warnings."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def handle(self, query_id: str, event: Event, at_ns: int) -> None:
        """Drop the event."""

    def warn(self, message: str) -> None:
        """Print the warning at once."""
        print(f"warning: {clean(message)}", file=self._stream)

    def close(self) -> None:
        """Nothing to close."""


class Silent:
    """Shows nothing."""

    def handle(self, query_id: str, event: Event, at_ns: int) -> None:
        """Drop the event."""

    def warn(self, message: str) -> None:
        """Drop the warning."""

    def close(self) -> None:
        """Nothing to close."""
