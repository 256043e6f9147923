"""From what the user names (a folder, a table, standard input) to its rows.

What is wrong with the whole input is raised at once, before the first row; what is wrong with a
row is that row's failure.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from typing import BinaryIO

from specctl.data.folder import find_images, folder_rows, has_subfolders
from specctl.data.jsonl import jsonl_rows, refuse_utf16
from specctl.data.rows import Defaults, Row, RowMaker
from specctl.data.sniff import has_image_header
from specctl.data.table import read_header, table_rows
from specctl.errors import InputError, UsageError

STDIN = "-"
_TABLES = (".csv", ".tsv", ".tab")
_LINES = (".jsonl", ".ndjson")
_ESTIMATE_BYTES = 16 << 20


def read_rows(
    source: str,
    *,
    question: str | None = None,
    options: tuple[str, ...] = (),
    recursive: bool = False,
    stdin: BinaryIO,
) -> Iterator[Row]:
    """The rows of a folder, a JSONL, CSV or TSV file, or of JSON lines on standard input ("-").

    `question` and `options` stand in for rows that have none. Raises `InputError` where there is
    no row at all, `UsageError` for a folder without a question.
    """
    if source == STDIN:
        maker = RowMaker(Defaults(question, options))
        return _some(jsonl_rows(stdin, "stdin", maker), "standard input")
    if stat.S_ISDIR(_status(source).st_mode):
        return _folder(source, Defaults(question, options, source), recursive)
    maker = RowMaker(Defaults(question, options, os.path.dirname(source)))
    if _is_table(source):
        return _some(_table(source, maker), source)
    return _some(_jsonl(source, maker), source)


def input_fingerprint(source: str, *, recursive: bool = False) -> str | None:
    """The sha256 of a table's bytes, or of a folder's image names and sizes; None for "-"."""
    if source == STDIN:
        return None
    digest = sha256()
    if stat.S_ISDIR(_status(source).st_mode):
        for found in find_images(source, recursive):
            digest.update(f"{found.size} {found.relative}\0".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()
    with _open(source) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def count_rows(source: str, *, recursive: bool = False) -> int | None:
    """About how many rows there are, for a progress bar; None where that cannot be known."""
    if source == STDIN:
        return None
    if stat.S_ISDIR(_status(source).st_mode):
        return sum(1 for _ in find_images(source, recursive))
    with _open(source) as stream:
        lines = seen = 0
        for line in stream:
            seen += len(line)
            lines += bool(line.strip())
            if seen > _ESTIMATE_BYTES:
                lines = round(lines * os.fstat(stream.fileno()).st_size / seen)
                break
    return max(lines - 1, 0) if _is_table(source) else lines


def _folder(folder: str, defaults: Defaults, recursive: bool) -> Iterator[Row]:
    if defaults.question is None:
        raise UsageError(
            f"{folder} is a folder, so every image gets the same question, and there is none",
            hint='add --question "..."',
        )
    found = find_images(folder, recursive)
    first = next(found, None)
    if first is not None and first.error and not first.relative:
        raise InputError(f"cannot read {folder}: {first.error}", code="input.unreadable")
    if first is None:
        hint = "name a folder that holds image files"
        if not recursive and has_subfolders(folder):
            hint = "there are subfolders: add --recursive"
        raise InputError(f"no image file in {folder}", code="input.no_images", hint=hint)
    return folder_rows(folder, chain([first], found), RowMaker(defaults))


def _jsonl(path: str, maker: RowMaker) -> Iterator[Row]:
    with _open(path) as stream:
        yield from jsonl_rows(stream, path, maker)


def _table(path: str, maker: RowMaker) -> Iterator[Row]:
    with _open(path) as stream:
        # Undecodable bytes pass through: they fail the row they stand in, and name files as is.
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        yield from table_rows(text, path, read_header(text, path), maker)


def _some(rows: Iterator[Row], name: str) -> Iterator[Row]:
    """The same rows; `InputError` now if there is not even one."""
    first = next(rows, None)
    if first is None:
        raise InputError(f"no row in {name}", code="input.no_rows")
    return chain([first], rows)


def _is_table(path: str) -> bool:
    """CSV or TSV rather than JSON lines, by name, else by the first character."""
    with _open(path) as stream:
        head = stream.peek(64)[:64]
    if has_image_header(head):
        raise _unknown(path, "is an image", f'ask about one image with: specctl run {path} "..."')
    refuse_utf16(head, path)
    extension = os.path.splitext(path)[1].lower()
    if extension in _TABLES:
        return True
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if extension not in _LINES and start not in (b"{", b""):
        hint = "give a folder, .jsonl (one object a line), .csv, .tsv, or - for standard input"
        raise _unknown(path, "is no input of a kind that can be read", hint)
    return False


def _status(source: str) -> os.stat_result:
    """What `source` is; `InputError` unless it is a folder or an ordinary file."""
    try:
        status = os.stat(source)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot read {source}: {reason}",
            code="input.not_found",
            hint="give a folder, a .jsonl, .csv or .tsv file, or - for standard input",
        ) from error
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise _unknown(
            source, "is neither a folder nor a file", f"pipe it: specctl batch - < {source}"
        )
    return status


def _unknown(source: str, what: str, hint: str) -> InputError:
    return InputError(f"{source} {what}", code="input.unknown_kind", hint=hint)


def _open(path: str) -> io.BufferedReader:
    try:
        return open(path, "rb")
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise InputError(message, code="input.unreadable") from error
