"""What a source yields: one `Row` per input row, either a query or the reason why there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specctl.data.fields import FieldError, identity, option_list, scalar, text
from specctl.data.seen import SeenIds
from specctl.types import Failure, Outcome, Query, Result

KNOWN_FIELDS = ("id", "image", "question", "options", "answer")
MAX_PATH_CHARS = 4096


@dataclass(frozen=True, slots=True)
class Row:
    """One input row, 0-based in input order; `place` is where it stands, as "file:line".

    `asked` is the query as far as it could be read: complete unless there is a `failure`.
    `extra` keeps the fields that mean nothing here.
    """

    index: int
    place: str
    asked: Query
    extra: Mapping[str, Any] = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def id(self) -> str:
        """Unique among the rows of a source, also where the row failed."""
        return self.asked.id

    @property
    def query(self) -> Query | None:
        """The query to answer; None where the row failed."""
        return None if self.failure else self.asked

    def failed(self) -> Result:
        """The result of a row that has a failure."""
        assert self.failure is not None
        return Result(self.asked, None, None, Outcome.FAILED, error=self.failure)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What rows fall back on, and the folder that relative image paths start from."""

    question: str | None
    options: tuple[str, ...]
    folder: str = ""


@dataclass(slots=True)
class RowMaker:
    """Turns fields into rows: numbers them, checks them and keeps their ids apart."""

    defaults: Defaults
    index: int = 0
    seen: SeenIds = field(default_factory=SeenIds)

    def row(self, fields: Mapping[str, Any], default_id: str, place: str) -> Row:
        """The row of these fields, failed if one of them cannot be used."""
        extra = {name: value for name, value in fields.items() if name not in KNOWN_FIELDS}
        known: dict[str, Any] = {}
        failure: Failure | None = None
        for name, read in self._readers().items():
            try:
                known[name] = read(fields.get(name))
            except FieldError as error:
                failure = failure or Failure(error.code, f"{place}: {error}")
        return self._finish(known, default_id, place, extra, failure)

    def broken(self, failure: Failure, default_id: str, place: str) -> Row:
        """A row of which nothing could be read."""
        failure = Failure(failure.code, f"{place}: {failure.message}")
        return self._finish({}, default_id, place, {}, failure)

    def _readers(self) -> dict[str, Any]:
        return {
            "id": identity,
            "image": self._image,
            "question": self._question,
            "options": lambda value: option_list(value) or self.defaults.options,
            "answer": lambda value: scalar("answer", value),
        }

    def _image(self, value: Any) -> str:
        path = text("image", value)
        if path is None:
            raise FieldError("input.missing_field", "no 'image'")
        if len(path) > MAX_PATH_CHARS or "\0" in path or not _can_be_a_path(path):
            raise FieldError("input.bad_path", f"'image' is no file path: {path[:40]!r}")
        joined = os.path.join(self.defaults.folder, path)
        # A lone "-" would mean standard input to whoever opens it.
        return os.path.join(".", joined) if joined == "-" else joined

    def _question(self, value: Any) -> str:
        question = text("question", value) or self.defaults.question
        if question is None:
            raise FieldError("input.missing_field", "no 'question', in the row or by --question")
        return question

    def _finish(
        self,
        known: Mapping[str, Any],
        default_id: str,
        place: str,
        extra: Mapping[str, Any],
        failure: Failure | None,
    ) -> Row:
        given = known.get("id")
        row_id = given or default_id
        if not self.seen.add(row_id):
            if given and not failure:
                message = f"{place}: id {given!r} was given to an earlier row"
                failure = Failure("input.duplicate_id", message)
            row_id = self._free_id(default_id)
        asked = Query(
            row_id,
            known.get("image", ""),
            known.get("question", ""),
            known.get("options", ()),
            known.get("answer"),
        )
        row = Row(self.index, place, asked, extra, failure)
        self.index += 1
        return row

    def _free_id(self, default_id: str) -> str:
        number, row_id = 1, default_id
        while not self.seen.add(row_id):
            number += 1
            row_id = f"{default_id}-{number}"
        return row_id


def _can_be_a_path(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True
