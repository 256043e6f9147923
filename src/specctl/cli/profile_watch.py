"""Progress of a profile on standard error, between runs and never during one."""

from __future__ import annotations

import sys

from specctl.cli.display import is_watched
from specctl.config import Settings
from specctl.render.text import clean


class Progress:
    """A counter that is rewritten on a terminal; elsewhere a line for each tenth of the runs."""

    def __init__(self, settings: Settings) -> None:
        self._is_quiet = settings.quiet
        self._is_live = is_watched(sys.stderr)

    def __call__(self, done: int, total: int) -> None:
        """Tell that so many runs of all are done."""
        if self._is_quiet:
            return
        if self._is_live:
            end = "\r\x1b[K" if done == total else ""
            print(f"\r measuring  run {done} of {total}{end}", end="", file=sys.stderr, flush=True)
        elif done * 10 // total > (done - 1) * 10 // total:
            self.tell(f"progress runs={done} of={total}")

    def tell(self, line: str) -> None:
        """One line, unless nothing is to be told."""
        if not self._is_quiet:
            print(clean(line), file=sys.stderr, flush=True)
