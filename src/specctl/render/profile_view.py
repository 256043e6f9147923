"""A profile for a terminal: header, tables with bars where there is room, one query's timeline."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from specctl.journal.profile import NOT_TIMED, Provenance
from specctl.metrics.latency import e2e_ns
from specctl.metrics.profile import Profile
from specctl.render.bars import bar
from specctl.render.figures import PLUS_MINUS, duration
from specctl.render.profile_tables import Table, profile_tables
from specctl.render.symbols import Symbols
from specctl.render.text import clean, fit, plural
from specctl.render.timeline import timeline

_BAR = 14
_GAP = 2
MOST_FAILED = 10


def profile_report(
    profile: Profile, provenance: Provenance, width: int, symbols: Symbols
) -> list[Text]:
    """Every row of the report, none longer than `width`."""
    rows = [*_header(profile, provenance, width), Text()]
    for table in profile_tables(profile):
        rows += [*_table(_spelled(table, symbols), width, symbols), Text()]
    rows += _median(profile, width, symbols)
    rows += _failures(profile, width, symbols)
    rows += _wrapped(untimed(provenance), width, "dim")
    for text in rows:
        text.truncate(width)
    return rows


def facts_of(profile: Profile, provenance: Provenance) -> list[str]:
    """What was measured, with what, on what; one line each."""
    models = [
        f"{role} {clean(info.id)} on {info.device}, {info.dtype}, {info.weights_sha256[:12]}"
        for role, info in provenance.models.items()
    ]
    gate, versions = provenance.gate, provenance.versions
    limited = "" if provenance.limit is None else f", limited to {provenance.limit}"
    return [
        f"{clean(provenance.source)}{limited}",
        f"{plural(profile.num_rows, 'row')} x {plural(profile.num_runs, 'run')} x 2 modes, in "
        f"turns; {plural(provenance.warm_up_runs, 'warm-up run')} dropped; "
        "every run encodes its image anew",
        *models,
        f"threshold {gate.threshold:g}, aggregate {gate.aggregate}, K {gate.top_k}, "
        f"least margin {gate.min_margin:g}, plan {provenance.plan}, seed {provenance.seed}",
        f"{clean(', '.join((*provenance.accelerators, provenance.processor)))}, "
        f"{plural(provenance.num_cpus, 'core')}, {plural(provenance.num_threads, 'thread')}",
        ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]


def untimed(provenance: Provenance) -> str:
    """What is not in any of the times."""
    loading = f"{NOT_TIMED[0]} ({duration(provenance.loading_s)})"
    return f"not timed: {'; '.join((loading, *NOT_TIMED[1:]))}"


def failed_lines(profile: Profile) -> list[str]:
    """The failed rows, the first ones in full."""
    shown = profile.failed[:MOST_FAILED]
    lines = []
    for row in shown:
        error = row.sample.result.error
        assert error is not None
        where = "" if len(row.modes) > 1 else f" ({row.modes[0]})"
        lines.append(f"{row.sample.result.query.id}{where} {error.code}: {error.message}")
    more = len(profile.failed) - len(shown)
    return [clean(line) for line in lines] + ([f"and {more} more"] if more else [])


def _header(profile: Profile, provenance: Provenance, width: int) -> list[Text]:
    lines = facts_of(profile, provenance)
    head = "profile   "
    rows: list[Text] = []
    for number, line in enumerate(lines):
        for wrapped in textwrap.wrap(line, max(20, width - 1 - len(head))):
            lead = " " * len(head) if rows else head
            rows.append(Text(" ").append(lead, "bold").append(wrapped, "dim" if number else ""))
    return rows


def _spelled(table: Table, symbols: Symbols) -> Table:
    """The table in marks that the stream can print."""

    def spelled(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(text.replace(PLUS_MINUS, symbols.plus_minus) for text in texts)

    return replace(table, rows=tuple(map(spelled, table.rows)), facts=spelled(table.facts))


def _table(table: Table, width: int, symbols: Symbols) -> list[Text]:
    """The label at the left, numbers at the right of their columns, words at the left."""
    lines = [table.heads, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.heads))]
    gap = 2 if 1 + sum(widths) + 2 * (len(widths) - 1) <= width else 1
    blank = (0.0,) * (len(widths) - 1)
    bars = (blank, *table.bars[:-1], blank) if table.bars and width >= 80 else ()
    rows: list[Text] = []
    for number, line in enumerate(lines):
        if any(table.heads[1:]):
            rows.append(_numbers(line, widths, gap, bars[number] if bars else (), symbols))
        else:
            rows += _words(line, widths, width)
        rows[-1].stylize("bold" if number == 0 else "")
    for fact in table.facts:
        rows += _wrapped(fact, width)
    return rows


def _numbers(
    line: Sequence[str], widths: Sequence[int], gap: int, shares: Sequence[float], symbols: Symbols
) -> Text:
    text = Text(" ").append(line[0].ljust(widths[0]))
    for column, cell in enumerate(line[1:]):
        text.append(" " * gap).append(cell.rjust(widths[column + 1]))
        if shares:
            drawn = shares[column] if shares[column] * _BAR >= 0.5 else 0.0
            text.append("  ").append(bar(drawn, _BAR, symbols).ljust(_BAR), "cyan")
    return text


def _words(line: Sequence[str], widths: Sequence[int], width: int) -> list[Text]:
    """The last cell goes on a line of its own where it does not fit."""
    label, *cells = line
    text = Text(" ").append(label.ljust(widths[0]))
    for cell, room in zip(cells[:-1], widths[1:-1], strict=True):
        text.append("  ").append(cell.ljust(room))
    if text.cell_len + 2 + widths[-1] <= width:
        return [text.append("  ").append(cells[-1], "dim")]
    under = [Text(" " * (widths[0] + 3)).append(cells[-1], "dim")] if cells[-1] else []
    return [text, *under]


def _median(profile: Profile, width: int, symbols: Symbols) -> list[Text]:
    if profile.median is None:
        return []
    result = profile.median.result
    facts = f"{result.outcome}, {duration(e2e_ns(result) / 1e9)}, {clean(result.query.id)}"
    title = Text(" ").append("the median speculative run  ", "bold")
    title.append(fit(facts, max(0, width - title.cell_len), symbols.ellipsis))
    return [title, *timeline(result.runtime.spans, width, symbols), Text()]


def _failures(profile: Profile, width: int, symbols: Symbols) -> list[Text]:
    if not profile.failed:
        return []
    rows = [Text(f" failed rows ({len(profile.failed)} of {profile.num_rows})", "bold red")]
    for line in failed_lines(profile):
        rows.append(Text(f"   {fit(line, width - 3, symbols.ellipsis)}"))
    return [*rows, Text()]


def _wrapped(text: str, width: int, style: str = "") -> Sequence[Text]:
    lines = textwrap.wrap(text, max(20, width - 3), break_on_hyphens=False)
    return [
        Text(" " if number == 0 else "   ").append(line, style) for number, line in enumerate(lines)
    ]
