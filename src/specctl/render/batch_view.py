"""The view of a batch as a fixed number of rows, so that nothing jumps while it runs.

Below 80 columns the bars of the shares go, and what a row has no room for at its end.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from specctl.metrics.samples import Proportion
from specctl.render.bars import bar
from specctl.render.batch_state import LATEST, BatchState, Current, Ended
from specctl.render.run_view import MAX_WIDTH, Header
from specctl.render.symbols import Symbols
from specctl.render.text import clean, fit, number, plural
from specctl.types import Outcome, Role

_LABEL = 9
_BAR = 24
_STYLES = {"accepted": "green", "verified": "yellow", "failed": "red"}


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """What is known before the first row: where rows come from and go to, and the pair."""

    source: str
    out: str
    pair: Header


def frame(state: BatchState, header: BatchHeader, width: int, symbols: Symbols) -> list[Text]:
    """All rows while the batch runs, none wider than `width`."""
    width = min(width, MAX_WIDTH)
    rows = [
        *head_rows(state, header, width, symbols),
        Text(),
        progress_row(state, width, symbols),
        Text(),
        *outcome_rows(state, width, symbols),
        Text(),
        _now_row(state, symbols),
        *_latest_rows(state, width, symbols),
    ]
    return [cut(row, width, symbols) for row in rows]


def cut(row: Text, width: int, symbols: Symbols) -> Text:
    """The row in at most `width` cells."""
    if row.cell_len > width:
        row.truncate(max(0, width - len(symbols.ellipsis)))
        row.append(symbols.ellipsis)
    return row


def head_rows(state: BatchState, header: BatchHeader, width: int, symbols: Symbols) -> list[Text]:
    """From where to where, with which pair, and warnings."""
    title = f" specctl {header.pair.command}  "
    room = width - len(title)
    facts = f" {symbols.dot} ".join(clean(fact) for fact in header.pair.facts)
    told = [header.pair.warning] * bool(header.pair.warning) + state.warnings
    return [
        Text.assemble((title, "bold"), fit(_ways(header, room, symbols), room, symbols.ellipsis)),
        Text(f" {fit(facts, width - 1, symbols.ellipsis)}", style="dim"),
        *(Text(line, style="yellow") for text in told for line in _wrapped(text, width, symbols)),
    ]


def progress_row(state: BatchState, width: int, symbols: Symbols) -> Text:
    """How many of how many, at which rate, and how long it will take."""
    done = state.num_done
    rate = state.rows_per_s
    facts = [f"{significant(rate)} rows/s"] if rate is not None else []
    if state.total is None:
        return Text(f" {plural(done, 'row')}   {''.join(facts)}")
    total = max(state.total, done)
    share = done / total if total else 1.0
    facts += [f"eta {clock_time(eta)}"] if (eta := state.eta_s) is not None else []
    count = f" {str(done).rjust(len(str(total)))}/{total}  "
    tail = "   ".join([f"  {share * 100:3.0f} %", *facts])
    cells = max(0, min(50, width - len(count) - len(tail)))
    filled = min(cells, int(share * cells))
    return Text.assemble(
        count,
        (symbols.block * filled, "cyan"),
        (symbols.rule * (cells - filled), "dim"),
        tail,
    )


def outcome_rows(state: BatchState, width: int, symbols: Symbols) -> list[Text]:
    """Accepted, verified and failed with their shares, and what else is known of each."""
    counts, depth = state.tally.counts, state.tally.depth
    depths = f"depth {number(depth.mean, 1)} mean, {depth.max} max" if depth.n else ""
    shares = [
        (symbols.accepted, Outcome.ACCEPTED, counts.accepted, _acceptance(counts.acceptance)),
        (symbols.verified, Outcome.VERIFIED, counts.verified, depths),
        (symbols.failed, Outcome.FAILED, counts.failed, code_list(state, symbols)),
    ]
    digits = max(4, len(str(counts.all)))
    rows = []
    for mark, outcome, count, fact in shares:
        share = count / counts.all if counts.all else 0.0
        row = Text(" ").append(f"{mark} {outcome}".ljust(10 + len(mark)), style=_STYLES[outcome])
        row.append(f" {count:>{digits}}  {share * 100:5.1f} %  ")
        if width >= 80:
            row.append(bar(share, _BAR, symbols).ljust(_BAR) + "  ", style=_STYLES[outcome])
        rows.append(row.append(fact, style="dim"))
    return rows


def code_list(state: BatchState, symbols: Symbols) -> str:
    """Error codes with how often each came, the most frequent first."""
    codes = state.tally.codes.most_common(3)
    return f" {symbols.dot} ".join(f"{clean(code)} {count}" for code, count in codes)


def interval(share: Proportion) -> str:
    """`0.69 [0.62, 0.75]`: a proportion with its Wilson interval."""
    low, high = share.interval()
    return f"{number(share.value)} [{low:.2f}, {high:.2f}]" if share.n else "none"


def clock_time(seconds: float) -> str:
    """`1:02:03`."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def significant(value: float) -> str:
    """At most three digits: `0.04`, `1.94`, `12.3`, `140`."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _ways(header: BatchHeader, room: int, symbols: Symbols) -> str:
    """From where to where; without the folders where they do not fit."""
    whole = [clean(path) for path in (header.source, header.out)]
    ways = f" {symbols.arrow} ".join(whole)
    if cell_len(ways) <= room:
        return ways
    return f" {symbols.arrow} ".join(os.path.basename(path) or path for path in whole)


def _wrapped(warning: str, width: int, symbols: Symbols) -> list[str]:
    lead = f" {symbols.warning} "
    return wrap(
        clean(warning),
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_on_hyphens=False,
    )


def _acceptance(share: Proportion) -> str:
    return f"acceptance {interval(share)}" if share.n else ""


def _now_row(state: BatchState, symbols: Symbols) -> Text:
    label = Text(" now".ljust(_LABEL), style="dim")
    if state.loading is not None:
        return label.append(f"loading the {state.loading} {symbols.ellipsis}")
    if state.current is None:
        return label
    return label.append(f"{clean(state.current.id)}  ").append(_doing(state.current), style="dim")


def _doing(current: Current) -> str:
    if current.role is None:
        return "reading the image"
    step = f" step {current.step}" if current.role is Role.VERIFIER else ""
    if not current.num_tokens:
        return f"{current.role}{step} looks"
    return f"{current.role}{step}, {plural(current.num_tokens, 'token')}"


def _latest_rows(state: BatchState, width: int, symbols: Symbols) -> list[Text]:
    shown = [*state.latest, *[None] * LATEST][:LATEST]
    ids = max((len(clean(row.id)) for row in state.latest), default=0)
    room = max(8, min(ids, width // 4))
    rows = []
    for index, row in enumerate(shown):
        line = Text((" latest" if index == 0 else "").ljust(_LABEL), style="dim")
        rows.append(line if row is None else line.append_text(_ended(row, room, symbols)))
    return rows


def _ended(row: Ended, room: int, symbols: Symbols) -> Text:
    name = fit(clean(row.id), room, symbols.ellipsis)
    mark = str(getattr(symbols, row.outcome, symbols.verified))
    text = Text(style="").append(name + " " * max(0, room - Text(name).cell_len) + "  ")
    text.append(mark, style=_STYLES.get(row.outcome, ""))
    text.append(f" {number(row.score, 3) if row.score is not None else '':5}  ", style="dim")
    if row.code is not None:
        return text.append(f"{clean(row.code)}: {clean(row.message or '')}")
    text.append(clean(row.answer or ""), style="bold")
    return text.append(f"  depth {row.depth}", style="dim") if row.depth else text
