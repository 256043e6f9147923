"""The results file of a batch: one line per input row, in input order, whatever happens meanwhile.

An ordinary run appends to the file. A run over failed rows writes a second file beside it
(`.partial`), the old line or the new result for every row, and gives it the final name at the end:
until then the old file stays whole, and the second one is continued like any other after a crash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TextIO, TypeVar

from specctl.errors import StateError
from specctl.journal.lines import (
    LineWriter,
    count_lines,
    parse,
    replace_file,
    whole_lines,
)
from specctl.journal.manifest import Manifest, continued, write_manifest
from specctl.journal.records import to_json
from specctl.types import ModelInfo, Outcome, Role

Record = Mapping[str, Any]


class HasId(Protocol):
    """An input row, as far as it matters here."""

    @property
    def id(self) -> str: ...


RowT = TypeVar("RowT", bound=HasId)


class Results(Protocol):
    """Where a batch's records go.

    `todo` passes on the rows that have to be run; `write` takes their records in the same order.
    """

    @property
    def done(self) -> int: ...
    def todo(
        self, rows: Iterable[RowT], kept: Callable[[Record], None] | None = None
    ) -> Iterator[RowT]: ...
    def record_models(self, models: Mapping[Role, ModelInfo]) -> None: ...
    def write(self, record: Record) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Results: ...
    def __exit__(self, *exc: object) -> None: ...


class StreamResults:
    """Records to a stream, without a memory: nothing is ever done already."""

    done = 0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def todo(
        self, rows: Iterable[RowT], kept: Callable[[Record], None] | None = None
    ) -> Iterator[RowT]:
        """All rows."""
        return iter(rows)

    def record_models(self, models: Mapping[Role, ModelInfo]) -> None:
        """Nothing to record them in: every record names its models."""

    def write(self, record: Record) -> None:
        """One line, at once."""
        self._stream.write(to_json(record) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """The stream belongs to the caller."""

    def __enter__(self) -> StreamResults:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class ResultsFile:
    """Records to a file that is continued where it ended; made by `open_results`.

    `path` holds the whole lines of earlier runs, none torn. `partial` is where a run over failed
    rows writes; None for a run that appends.
    """

    def __init__(
        self,
        path: str,
        manifest: Manifest,
        *,
        partial: str | None = None,
        force: bool = False,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._partial = partial
        self._force = force
        self._release = release
        target = partial or path
        self._writer = LineWriter(target)
        self._written = count_lines(target)
        self._at_start = self._written
        self._is_between_lines = True
        self._pending: deque[tuple[int, str]] = deque()
        self._old = whole_lines(path, start=self._written) if partial else iter(())
        self.done = sum(keep for _, keep in self._earlier()) if partial else self._at_start
        """Rows that have a result which stays, known when the file was opened."""

    def todo(
        self, rows: Iterable[RowT], kept: Callable[[Record], None] | None = None
    ) -> Iterator[RowT]:
        """The rows that have to be run, in order; `kept` sees the records of the others.

        Raises `StateError` where an earlier result is not that of the row in its place.
        """
        earlier = self._earlier()
        for index, row in enumerate(rows):
            record, keep = next(earlier, (None, False))
            if record is not None and record["id"] != row.id:
                raise self._conflict(
                    f"line {index + 1} is the result of {record['id']!r}, not of row {row.id!r}"
                )
            if not keep:
                self._pending.append((index, row.id))
                yield row
            elif kept is not None and record is not None:
                kept(record)
        if next(earlier, None) is not None:
            raise self._conflict("it holds results of more rows than there are now")

    def record_models(self, models: Mapping[Role, ModelInfo]) -> None:
        """Add what is known of models once they are loaded.

        Raises `StateError` if they are not those of the earlier results, unless forced.
        """
        old, new = self.manifest.to_dict(), self.manifest.with_models(models)
        if new.to_dict() != old:
            self.manifest = continued(old, new, self.path, self._force)
            write_manifest(manifest_path(self.path), self.manifest)

    def write(self, record: Record) -> None:
        """The result of the next row that `todo` passed on."""
        index, row_id = self._pending[0]
        assert record["id"] == row_id, f"the result of {row_id!r} comes next, not {record['id']!r}"
        line = to_json(record).encode("ascii") + b"\n"
        # An interrupt in here may leave old and new lines out of step: then nothing may follow.
        assert self._is_between_lines
        self._is_between_lines = False
        while self._written < index:
            self._append(next(self._old))
        next(self._old, None)
        self._append(line)
        self._pending.popleft()
        self._is_between_lines = True

    def close(self) -> None:
        """Finish the file, with the old results of rows that were not run again; free the lock."""
        try:
            if self._partial is not None and self._is_between_lines:
                self._is_between_lines = False
                for line in self._old:
                    self._append(line)
                self._writer.close()
                replace_file(self._partial, self.path)
                self._partial = None
            self._writer.close()
        finally:
            self._release()

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _append(self, line: bytes) -> None:
        self._writer.write(line)
        self._written += 1

    def _earlier(self) -> Iterator[tuple[Record | None, bool]]:
        """The records that were there at the start, and whether each of them stays."""
        if self._partial is None:
            yield from ((record, True) for record in self._records(self.path, 0, self._at_start))
            return
        yield from ((record, True) for record in self._records(self._partial, 0, self._at_start))
        for record in self._records(self.path, self._at_start, None):
            yield record, record["outcome"] != Outcome.FAILED.value

    def _records(self, path: str, start: int, stop: int | None) -> Iterator[Record]:
        lines = whole_lines(path, start, stop)
        return (parse(line, path, number) for number, line in enumerate(lines, start=start + 1))

    def _conflict(self, what: str) -> StateError:
        hint = "was the input changed? choose another --out, or move the old results away"
        return StateError(f"{self.path} does not fit the input: {what}", hint=hint)


def manifest_path(path: str) -> str:
    """Where the manifest of a results file is."""
    return f"{path}.manifest.json"
