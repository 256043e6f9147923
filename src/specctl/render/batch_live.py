"""Ways to show a batch while it runs: repainted on a terminal, elsewhere lines, or nothing."""

from __future__ import annotations

from typing import Any, Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live

from specctl.events import Event, ModelLoaded, ModelLoading
from specctl.render.batch_state import BatchState, Ended
from specctl.render.batch_summary import summary_pairs, summary_rows
from specctl.render.batch_view import BatchHeader, frame
from specctl.render.plain import pairs_text
from specctl.render.symbols import symbols_for
from specctl.render.text import clean

_REPAINT_NS = 100_000_000
_LINE_NS = 2_000_000_000


class BatchView(Protocol):
    """Told whenever the state has changed; draws from the state."""

    def event(self, event: Event) -> None: ...

    def ended(self, row: Ended) -> None: ...

    def warn(self, message: str) -> None: ...

    def close(self, *, summary: bool) -> None:
        """Give the terminal back, with the summary where there is one to show."""


class LiveBatch:
    """Repaints in place, at most ten times a second; the summary takes the last frame's place."""

    def __init__(self, state: BatchState, header: BatchHeader, stream: TextIO) -> None:
        self._state, self._header = state, header
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

    def event(self, event: Event) -> None:
        """Repaint if it is time; at once for what takes long."""
        self._paint(is_due=isinstance(event, (ModelLoading, ModelLoaded)))

    def ended(self, row: Ended) -> None:
        """Repaint if it is time."""
        self._paint()

    def warn(self, message: str) -> None:
        """The state holds it."""

    def close(self, *, summary: bool) -> None:
        """Put the summary in the frame's place and give the cursor back."""
        try:
            if summary:
                rows = summary_rows(self._state, self._header, self._width(), self._symbols)
                self._live.update(Group(*rows), refresh=True)
        finally:
            self._live.stop()

    def _paint(self, *, is_due: bool = False) -> None:
        now_ns = self._state.clock()
        if self._painted_ns is None:
            self._live.start()
        elif not is_due and now_ns - self._painted_ns < _REPAINT_NS:
            return
        rows = frame(self._state, self._header, self._width(), self._symbols)
        self._live.update(Group(*rows[-max(1, self._console.height - 1) :]), refresh=True)
        self._painted_ns = now_ns

    def _width(self) -> int:
        return self._console.width - 1


class FinalBatch:
    """The summary once, without escape codes."""

    def __init__(self, state: BatchState, header: BatchHeader, stream: TextIO, width: int) -> None:
        self._state, self._header, self._stream, self._width = state, header, stream, width

    def event(self, event: Event) -> None:
        """Nothing is shown yet."""

    def ended(self, row: Ended) -> None:
        """Nothing is shown yet."""

    def warn(self, message: str) -> None:
        """The state holds it."""

    def close(self, *, summary: bool) -> None:
        """Print it."""
        if not summary:
            return
        symbols = symbols_for(self._stream.encoding)
        for row in summary_rows(self._state, self._header, self._width, symbols):
            self._stream.write(f"{row.plain.rstrip()}\n")
        self._stream.flush()


class PlainBatch:
    """Appends `key=value` lines: failures as they come, progress every two seconds, the summary."""

    def __init__(self, state: BatchState, header: BatchHeader, stream: TextIO) -> None:
        self._state, self._stream = state, stream
        self._told_ns = state.clock()
        if header.pair.warning:
            self.warn(header.pair.warning)

    def event(self, event: Event) -> None:
        """Tell which model was loaded."""
        if isinstance(event, ModelLoaded):
            info = event.info
            facts = {"id": info.id, "device": info.device, "dtype": info.dtype}
            self._write("model", {"role": event.role, **facts})

    def ended(self, row: Ended) -> None:
        """Tell a failure, and every two seconds how far the batch is."""
        if row.code is not None:
            self._write("failed", {"id": row.id, "error": row.code, "message": row.message})
        now_ns = self._state.clock()
        if now_ns - self._told_ns >= _LINE_NS:
            self._told_ns = now_ns
            self._write("batch", self._progress())

    def warn(self, message: str) -> None:
        """Print it at once."""
        self._stream.write(f"warning: {clean(message)}\n")
        self._stream.flush()

    def close(self, *, summary: bool) -> None:
        """Print the summary's line."""
        if summary:
            self._write("done", summary_pairs(self._state))

    def _progress(self) -> dict[str, Any]:
        state, counts = self._state, self._state.tally.counts
        return {
            "rows": counts.all,
            "total": state.total,
            "accepted": counts.accepted,
            "verified": counts.verified,
            "failed": counts.failed,
            "rows_per_s": state.rows_per_s,
            "eta_s": None if state.eta_s is None else round(state.eta_s, 1),
        }

    def _write(self, word: str, values: dict[str, Any]) -> None:
        self._stream.write(f"{pairs_text(word, values)}\n")
        self._stream.flush()


class SilentBatch:
    """Shows nothing."""

    def event(self, event: Event) -> None:
        """Drop the event."""

    def ended(self, row: Ended) -> None:
        """Drop the row."""

    def warn(self, message: str) -> None:
        """Drop the warning."""

    def close(self, *, summary: bool) -> None:
        """Nothing to close."""
