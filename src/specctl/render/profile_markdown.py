"""A profile as Markdown: the tables of the terminal's view, for an issue or a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specctl.journal.profile import Provenance
from specctl.metrics.profile import Profile
from specctl.render.profile_tables import Table, profile_tables
from specctl.render.profile_view import facts_of, failed_lines, untimed

_SPECIAL = "\\`*_|<>[]"


def profile_to_markdown(profile: Profile, provenance: Provenance) -> str:
    """The whole report as one Markdown text."""
    lines = ["# specctl profile", ""]
    lines += [f"- {_escape(fact)}" for fact in facts_of(profile, provenance)]
    lines += [f"- measured {provenance.created}", ""]
    for table in profile_tables(profile):
        lines += [*_table(table), ""]
    if profile.failed:
        lines += [f"Failed rows ({len(profile.failed)} of {profile.num_rows}):", ""]
        lines += [*(f"- {_escape(line)}" for line in failed_lines(profile)), ""]
    return "\n".join([*lines, _escape(untimed(provenance)), ""])


def _table(table: Table) -> list[str]:
    rule = "|".join(["---", *("---:" for _ in table.heads[1:])])
    lines = [_line(table.heads), f"|{rule}|", *map(_line, _named_in_full(table.rows))]
    if table.facts:
        lines += ["", *(f"- {_escape(fact)}" for fact in table.facts)]
    return lines


def _named_in_full(rows: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """An indented label after the one it belongs to, since tables here have no indents."""
    above = ""
    for label, *cells in rows:
        if label.startswith(" "):
            yield f"{above}, {label.strip()}", *cells
        else:
            above = label
            yield label, *cells


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_escape(" ".join(cell.split())) for cell in cells) + " |"


def _escape(text: str) -> str:
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)
