"""The view on a terminal: repainted in place while the query runs, its last frame stays."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from specctl.events import Event, Finished, TokenDecoded
from specctl.render.run_view import Header, frame
from specctl.render.state import RunState
from specctl.render.symbols import symbols_for

_REPAINT_NS = 100_000_000


class LiveView:
    """Repaints at most ten times a second for tokens, and at once for anything rarer."""

    def __init__(self, header: Header, stream: TextIO) -> None:
        self._header = header
        self._state = RunState()
        self._symbols = symbols_for(stream.encoding)
        self._console = Console(
            file=stream, markup=False, highlight=False, emoji=False, soft_wrap=False
        )
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._painted_ns: int | None = None

    def handle(self, query_id: str, event: Event, at_ns: int) -> None:
        """Learn from the event, and repaint if it is time."""
        if self._painted_ns is None:
            self._live.start()
        self._state.take(event, at_ns)
        is_due = self._painted_ns is None or at_ns - self._painted_ns >= _REPAINT_NS
        if is_due or not isinstance(event, TokenDecoded):
            self._paint(at_ns, is_last=isinstance(event, Finished))

    def warn(self, message: str) -> None:
        """Keep the warning under the header."""
        self._state.warnings.append(message)

    def close(self) -> None:
        """Leave the last frame and give the cursor back."""
        if self._painted_ns is not None:
            self._live.stop()

    def _paint(self, at_ns: int, *, is_last: bool) -> None:
        """All rows at the end; before, only the lowest that fit, where things happen."""
        rows = frame(self._state, self._header, self._console.width - 1, self._symbols)
        if not is_last:
            rows = rows[-max(1, self._console.height - 1) :]
        self._live.update(Group(*rows), refresh=True)
        self._painted_ns = at_ns


class FinalView:
    """The same view without a terminal: its last frame, once, without escape codes."""

    def __init__(self, header: Header, stream: TextIO, width: int = 100) -> None:
        self._header = header
        self._stream = stream
        self._width = width
        self._state = RunState()

    def handle(self, query_id: str, event: Event, at_ns: int) -> None:
        """Learn from the event."""
        self._state.take(event, at_ns)

    def warn(self, message: str) -> None:
        """Keep the warning under the header."""
        self._state.warnings.append(message)

    def close(self) -> None:
        """Print what is known."""
        for text in frame(
            self._state, self._header, self._width, symbols_for(self._stream.encoding)
        ):
            self._stream.write(f"{text.plain.rstrip()}\n")
        self._stream.flush()


def print_row(row: Text, stream: TextIO) -> None:
    """One row, with styles only where a terminal shows them."""
    if stream.isatty():
        Console(file=stream, markup=False, highlight=False, emoji=False).print(row)
    else:
        stream.write(f"{row.plain.rstrip()}\n")
