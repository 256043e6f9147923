"""The one place where failures become a line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from specctl.errors import SpecctlError
from specctl.render.text import clean

INTERRUPTED = 130


class Commands(TyperGroup):
    """Runs a command; what it raises is told in one line, with a hint below."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; `SPECCTL_DEBUG=1` shows tracebacks."""
        try:
            return super().invoke(ctx)
        except SpecctlError as error:
            if os.environ.get("SPECCTL_DEBUG"):
                raise
            tell(error.message, error.hint)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as interrupt:
            tell("interrupted", "")
            raise typer.Exit(INTERRUPTED) from interrupt
        except BrokenPipeError:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  nobody reads any more
            raise typer.Exit(1) from None
        except Exception as error:
            if os.environ.get("SPECCTL_DEBUG") or _is_typers_own(error):
                raise
            tell(f"unexpected {type(error).__name__}: {error}", "SPECCTL_DEBUG=1 shows where")
            raise typer.Exit(1) from error


def tell(message: str, hint: str) -> None:
    """One line of error and one of what to do, on stderr."""
    print(f"error: {clean(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {clean(hint)}", file=sys.stderr)


def _is_typers_own(error: Exception) -> bool:
    """Exits, aborts and usage errors, which Typer handles itself."""
    return type(error).__module__.partition(".")[0] == "typer"
