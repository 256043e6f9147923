"""Files of JSON lines that survive a crash at any byte: only whole lines count.

Every line is handed to the operating system as soon as it is known, which outlives `kill -9`; only
a power cut needs more, so the disk is waited for once, at the end.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

from specctl.errors import InputError, SpecctlError, StateError

_BLOCK = 1 << 16


def read_results(path: str) -> Iterator[dict[str, Any]]:
    """The records of a results file, in order; a torn last line is left out."""
    if not os.path.isfile(path):
        raise InputError(f"no results file {path}", code="input.not_found")
    return (parse(line, path, number) for number, line in enumerate(whole_lines(path), start=1))


def whole_lines(path: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Lines `start` up to `stop`, with their line ends, without a torn last one."""
    with open(path, "rb") as stream:
        for line in islice(stream, start, stop):
            if line.endswith(b"\n"):
                yield line


def parse(line: bytes, path: str, number: int) -> dict[str, Any]:
    """The record on a line; `StateError` if there is none."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict) or "id" not in record:
        raise StateError(
            f"{path}:{number} is not a result",
            hint="the file was changed since it was written; move it away and start afresh",
        )
    return record


def count_lines(path: str) -> int:
    """How many whole lines there are."""
    with open(path, "rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(_BLOCK), b""))


def cut_torn_line(path: str) -> None:
    """Cut off whatever follows the last line end."""
    with open(path, "r+b") as stream:
        end = stream.seek(0, os.SEEK_END)
        while end:
            start = max(end - _BLOCK, 0)
            stream.seek(start)
            newline = stream.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        stream.truncate(end)


class LineWriter:
    """Appends lines to a file, each at once; after a failed write it takes no more."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_broken = False
        self._file = io.FileIO(path, "a")

    def write(self, line: bytes) -> None:
        """Append one line; `SpecctlError` if the disk does not take it."""
        assert line.endswith(b"\n")
        assert not self.is_broken, "nothing may follow a torn line"
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.is_broken = True
            raise cannot_write(self.path, error) from error
        except BaseException:
            self.is_broken = True
            raise

    def close(self) -> None:
        """Wait for the disk, then close."""
        if not self._file.closed:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                self.is_broken = True
                raise cannot_write(self.path, error) from error
            finally:
                self._file.close()


def replace_file(temporary: str, path: str) -> None:
    """Give a finished file its final name, at once and for good."""
    os.replace(temporary, path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def cannot_write(path: str, error: OSError) -> SpecctlError:
    """What to say when the disk is full or the place is not writable."""
    hint = "make room or choose another --out; --resume continues"
    return SpecctlError(f"cannot write {path}: {error.strerror or error}", hint=hint)
