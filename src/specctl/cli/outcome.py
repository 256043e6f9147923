"""What a command leaves: a line or one JSON object on standard output, and a file where asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specctl.errors import StateError, UsageError
from specctl.journal import to_json
from specctl.render.text import clean_block


def print_line(text: str) -> None:
    """The text on a line of its own, in what the stream can encode."""
    encoding = sys.stdout.encoding or "utf-8"
    print(clean_block(text).encode(encoding, "backslashreplace").decode(encoding))


def print_record(record: Mapping[str, Any]) -> None:
    """The result as one JSON object on one line."""
    print(to_json(record))


def check_new(path: Path) -> None:
    """Refuse a file that exists, or a folder that does not, before any work is done."""
    if path.exists():
        raise StateError(f"{path} exists already", hint="give --out another name, or remove it")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} to write {path.name} to")


def make_folder(path: Path) -> None:
    """The folder, made if it is not there, before any work is done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"the folder {path} cannot be made: {reason}") from error


def write_record(record: Mapping[str, Any], path: Path) -> None:
    """Write the result as JSON; the file appears whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(to_json(record, indent=2) + "\n", "utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StateError(f"{path} cannot be written: {error.strerror or error}") from error
