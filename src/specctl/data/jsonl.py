"""JSON lines to rows; a line that cannot be used is a failed row."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from specctl.data.rows import Row, RowMaker
from specctl.errors import InputError
from specctl.types import Failure

MAX_LINE_BYTES = 64 << 20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def jsonl_rows(stream: BinaryIO, name: str, maker: RowMaker) -> Iterator[Row]:
    """One row per line that is not blank; ids default to the line number."""
    for number, line in numbered_lines(stream, name):
        place, default_id = f"{name}:{number}", f"row-{number:06d}"
        if len(line) > MAX_LINE_BYTES:
            message = f"the line is longer than {MAX_LINE_BYTES >> 20} MiB"
            yield maker.broken(Failure("input.too_large", message), default_id, place)
            continue
        parsed = parse_object(line)
        if isinstance(parsed, Failure):
            yield maker.broken(parsed, default_id, place)
        else:
            yield maker.row(parsed, default_id, place)


def numbered_lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, numbered from 1, without a byte order mark.

    Of a line that is too long only the beginning is kept, one byte more than is allowed.
    """
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            refuse_utf16(line, name)
            line = line.removeprefix(codecs.BOM_UTF8)
        rest = line
        while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_LINE_BYTES + 1)
        if line.strip():
            yield number, line


def refuse_utf16(head: bytes, name: str) -> None:
    """Raise `InputError` for a file that a spreadsheet saved as "Unicode text"."""
    if head.startswith(_UTF16):
        raise InputError(
            f"{name} is UTF-16 text", code="input.encoding", hint="save it as UTF-8 and try again"
        )


def parse_object(line: bytes) -> dict[str, Any] | Failure:
    """The JSON object on a line, or why there is none."""
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Failure("input.encoding", f"not UTF-8 at byte {error.start + 1} of the line")
    except json.JSONDecodeError as error:
        return Failure("input.invalid_json", f"not JSON at column {error.colno}: {error.msg}")
    except (ValueError, RecursionError) as error:
        return Failure("input.invalid_json", f"not JSON that can be read: {error}")
    if not isinstance(value, dict):
        return Failure("input.wrong_type", "the line must hold an object {...}")
    return value
