"""Which rows a profile is over, and how often each is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from specctl.cli.assemble import build_query
from specctl.data import Row, input_fingerprint, read_rows
from specctl.data.sniff import has_image_header, has_image_name, read_header

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Task:
    """What a user asked to be measured; `seed` is that of the bootstrap."""

    source: str
    question: str | None
    options: tuple[str, ...]
    recursive: bool
    runs: int
    limit: int | None
    seed: int

    def rows(self) -> list[Row]:
        """The rows; what is wrong with the whole input is raised."""
        return list(islice(self._all_rows(), self.limit))

    def source_sha256(self) -> str | None:
        """Of a file's bytes, or of a folder's names and sizes; None for standard input."""
        return input_fingerprint(self.source, recursive=self.recursive)

    def _all_rows(self) -> Iterator[Row]:
        if self._is_image():
            query = build_query(self.source, self.question, None, list(self.options))
            return iter([Row(0, self.source, query)])
        return read_rows(
            self.source,
            question=self.question,
            options=self.options,
            recursive=self.recursive,
            stdin=sys.stdin.buffer,
        )

    def _is_image(self) -> bool:
        """One image, also one whose name alone says so: its row then tells what is wrong."""
        if self.source == STDIN or not os.path.isfile(self.source):
            return False
        return has_image_name(self.source) or has_image_header(read_header(self.source))
