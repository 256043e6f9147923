"""Ctrl-C and SIGTERM: the first is obeyed where nothing is left half done, the second at once."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from specctl.cli.errors import INTERRUPTED

ONE_PRESS_S = 0.3
"""Signals this close together are one: `timeout` sends its signal to a process and to its group."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\x1b[?25h\n"


class Interrupts:
    """Takes both signals while it is entered; the first becomes a `KeyboardInterrupt`.

    Within `held` it is raised at the next `check`, or when the block ends. The second ends the
    process there and then, even in the middle of a long computation: a results file bears that.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._is_held = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            reader, self._writer = socket.socketpair()
            self._writer.setblocking(False)
            self._wakeup_before = signal.set_wakeup_fd(
                self._writer.fileno(), warn_on_full_buffer=False
            )
            self._before = {which: signal.signal(which, self._take) for which in _SIGNALS}
            threading.Thread(target=_watch, args=(reader,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before:
            for which, handler in self._before.items():
                signal.signal(which, handler)
            signal.set_wakeup_fd(self._wakeup_before)
            self._writer.close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Put the first interrupt off until the block is done."""
        self.hold()
        try:
            yield
        finally:
            self._is_held = False
        self.check()

    def hold(self) -> None:
        """From here on an interrupt waits."""
        self._is_held = True

    def release(self) -> None:
        """From here on an interrupt is raised as it comes; one that waited, now."""
        self._is_held = False
        self.check()

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if one was asked for."""
        if self.is_requested:
            raise KeyboardInterrupt

    def _take(self, number: int, frame: FrameType | None) -> None:
        is_first = not self.is_requested
        self.is_requested = True
        if is_first and not self._is_held:
            raise KeyboardInterrupt


def _watch(reader: socket.socket) -> None:
    """Count signals as they arrive; their handlers have to wait for the computation under way."""
    first_s: float | None = None
    with reader:
        while arrived := reader.recv(1):
            if arrived[0] not in _SIGNALS:
                continue
            if first_s is None:
                first_s = time.monotonic()
            elif time.monotonic() - first_s > ONE_PRESS_S:
                break
        else:
            return
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _SHOW_CURSOR)
    os._exit(INTERRUPTED)
