"""A check-up as lines: each finding with its mark in words, its hint below, the next command last.

Lines wrap at the width with their text aligned; a path or a command is never broken, so that it
can be copied.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from specctl.render.text import clean, plural
from specctl.types import Word

_MARK, _NAME = 9, 16


class Mark(Word):
    """How a finding bears on running a query."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


_STYLES = {Mark.OK: "green", Mark.WARNING: "yellow", Mark.PROBLEM: "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check-up; `hint` says what to do about it."""

    mark: Mark
    name: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Findings about one thing."""

    title: str
    findings: tuple[Finding, ...]


def doctor_report(sections: Sequence[Section], next_command: str, width: int) -> list[Text]:
    """Every row of the report."""
    rows: list[Text] = []
    for section in sections:
        rows += [Text(section.title, style="bold")]
        for finding in section.findings:
            rows += _finding(finding, width)
        rows += [Text()]
    return [*rows, _summary(sections), Text("next: ").append(clean(next_command), style="bold")]


def count(sections: Sequence[Section], mark: Mark) -> int:
    """Findings with this mark."""
    return sum(finding.mark is mark for section in sections for finding in section.findings)


def _finding(finding: Finding, width: int) -> list[Text]:
    indent = 1 + _MARK + _NAME
    rows = []
    for number, line in enumerate(_wrap(clean(finding.text), width - indent)):
        name = finding.name if number == 0 else ""
        mark = str(finding.mark) if number == 0 else ""
        row = Text(" ").append(mark.ljust(_MARK), style=_STYLES[finding.mark])
        rows.append(row.append(name.ljust(_NAME)).append(line))
    if finding.hint:
        hint = _wrap(f"hint: {clean(finding.hint)}", width - indent)
        rows += [Text(" " * indent).append(line, style="dim") for line in hint]
    return rows


def _wrap(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(text, max(20, width), break_long_words=False, break_on_hyphens=False)
    return lines or [""]


def _summary(sections: Sequence[Section]) -> Text:
    problems, warnings = count(sections, Mark.PROBLEM), count(sections, Mark.WARNING)
    if not problems and not warnings:
        return Text("all is well")
    said = [plural(problems, "problem")] if problems else ["no problem"]
    return Text(", ".join([*said, *([plural(warnings, "warning")] if warnings else [])]))
