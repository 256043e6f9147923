"""CSV and TSV tables to rows; a row that cannot be used is a failed row.

A quote that is never closed spoils its own line only: reading goes on with the line after it.
"""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO

from specctl.data.fields import LETTERS
from specctl.data.rows import KNOWN_FIELDS, Row, RowMaker
from specctl.errors import InputError
from specctl.types import Failure

MAX_CELL_CHARS = 16 << 20
DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a table and what separates them."""

    columns: tuple[str, ...]
    delimiter: str


@dataclass(slots=True)
class _Lines:
    """Physical lines, with those of the record being read kept until the next one."""

    stream: TextIO
    number: int = 0
    taken: list[str] = field(default_factory=list)
    given_back: deque[str] = field(default_factory=deque)

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self.given_back.popleft() if self.given_back else self.stream.readline()
        if not line:
            raise StopIteration
        self.taken.append(line)
        return line

    def next_record(self) -> int:
        """Forget the record before; the number of the line where the next one begins."""
        self.number += len(self.taken)
        self.taken.clear()
        return self.number + 1

    def give_back_all_but_first(self) -> None:
        """Read the lines of this record again, as records of their own."""
        self.given_back.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]


def read_header(stream: TextIO, name: str) -> Header:
    """The header line, with the separator that makes `image` one of its columns."""
    line = stream.readline()
    preferred = ("\t", *DELIMITERS) if name.lower().endswith((".tsv", ".tab")) else DELIMITERS
    for delimiter in preferred:
        columns = _columns(line, delimiter)
        if "image" in columns:
            _refuse_repeated(columns, name)
            return Header(columns, delimiter)
    raise InputError(
        f"{name} has no column 'image' in its first line: {line.strip()[:80]!r}",
        code="input.missing_field",
        hint="the first line names the columns: image,question and optionally id,answer,A,B,C",
    )


def table_rows(stream: TextIO, name: str, header: Header, maker: RowMaker) -> Iterator[Row]:
    """One row per record after the header that is not blank; ids default to the line number."""
    for number, cells in _records(_Lines(stream, number=1), header.delimiter):
        place, default_id = f"{name}:{number}", f"row-{number:06d}"
        if isinstance(cells, csv.Error):
            yield maker.broken(Failure("input.bad_row", f"bad quoting: {cells}"), default_id, place)
        elif len(cells) != len(header.columns):
            message = f"{len(cells)} cells under {len(header.columns)} columns"
            yield maker.broken(Failure("input.bad_row", message), default_id, place)
        else:
            yield maker.row(_fields(header.columns, cells), default_id, place)


def _records(lines: _Lines, delimiter: str) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Records with the line they begin on; after an error the next line is read afresh."""
    # The limit is the process's own, and its default refuses a long caption.
    csv.field_size_limit(MAX_CELL_CHARS)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        number = lines.next_record()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, error
            lines.give_back_all_but_first()
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
        else:
            if any(cells):
                yield number, cells


def _columns(line: str, delimiter: str) -> tuple[str, ...]:
    """Column names, the known ones in lower case, the nameless ones numbered."""
    try:
        cells = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return ()
    names = [cell.strip() for cell in cells]
    known = [name.lower() if name.lower() in KNOWN_FIELDS else name for name in names]
    return tuple(name or f"column_{index}" for index, name in enumerate(known, start=1))


def _refuse_repeated(columns: tuple[str, ...], name: str) -> None:
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    if repeated:
        raise InputError(f"{name} has two columns {repeated[0]!r}", code="input.bad_header")


def _fields(columns: tuple[str, ...], cells: list[str]) -> dict[str, Any]:
    """Cells by column; columns A, B, C, ... together are the options."""
    fields: dict[str, Any] = dict(zip(columns, cells, strict=True))
    if options := fields.pop("options", ""):
        fields["options"] = _options(options)
    elif "A" in fields:
        letters = [letter for letter in LETTERS if letter in fields]
        fields["options"] = {letter: fields.pop(letter) for letter in letters}
    for name in ("id", "answer"):
        fields[name] = fields.get(name) or None
    return fields


def _options(cell: str) -> Any:
    """A JSON list or object, or texts with `|` between them."""
    if cell.lstrip().startswith(("[", "{")):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            pass
    return [option.strip() for option in cell.split("|")]
