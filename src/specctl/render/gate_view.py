"""The gate's report on one draft: every token, its rivals, every aggregate, the margin."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from specctl.render.bars import bar, raw_threshold
from specctl.render.symbols import Symbols
from specctl.render.text import clean, fit, number, row
from specctl.types import Aggregate, Draft, TokenScore, Verdict

_NAME = 16


def gate_report(
    draft: Draft,
    verdict: Verdict,
    aggregates: Sequence[tuple[Aggregate, float, float]],
    width: int,
    symbols: Symbols,
) -> list[Text]:
    """Rows that show why the verdict is what it is; `aggregates` are (name, raw, score)."""
    rows = [Text(), Text(" token           separability", style="dim")]
    for index, token in enumerate(draft.tokens):
        rows += _token(token, index == verdict.token_index, verdict, width, symbols)
    rows += [Text(), Text(" aggregate             raw    score", style="dim")]
    rows += [_aggregate(item, verdict, symbols) for item in aggregates]
    rows += [Text(), _margin(verdict, width)]
    for text in rows:
        text.truncate(width)
    return rows


def _token(
    token: TokenScore, is_deciding: bool, verdict: Verdict, width: int, symbols: Symbols
) -> list[Text]:
    """A bar to twice the raw threshold, and the best candidates with their logits."""
    name = fit(clean(token.text).strip() or "' '", _NAME - 2, symbols.ellipsis)
    line = Text(" ").append(name, style="bold" if is_deciding else "")
    line.pad_right(max(1, _NAME + 1 - line.cell_len))
    line.append(number(token.separability).rjust(12), style="bold" if is_deciding else "")
    if width >= 80:
        bound = raw_threshold(verdict.threshold, Aggregate.MIN)
        top = 2 * bound if 0 < bound < float("inf") else 12.0
        line.append("  ").append(bar(token.separability / top, 30, symbols), style="cyan")
    facts = f"margin {number(token.margin)}" + (" (decides)" if is_deciding else "")
    return [row(line, facts, width), _rivals(token, width, symbols)]


def _rivals(token: TokenScore, width: int, symbols: Symbols) -> Text:
    shown = [
        f"{clean(candidate.text).strip() or repr(clean(candidate.text))} {number(candidate.logit)}"
        for candidate in token.top
    ]
    text = f"logits: {f' {symbols.dot} '.join(shown)}"
    return Text("   ").append(fit(text, width - 3, symbols.ellipsis), style="dim")


def _aggregate(item: tuple[Aggregate, float, float], verdict: Verdict, symbols: Symbols) -> Text:
    name, raw, score = item
    passes = score > verdict.threshold
    line = Text(f" {name}".ljust(_NAME) + f"{number(raw):>10}  {number(score, 4):>7}  ")
    line.append(f"{'>' if passes else '<='} {symbols.tau} {number(verdict.threshold, 3)}")
    if name is verdict.aggregate:
        line.append("  (decides)", style="bold")
    return line


def _margin(verdict: Verdict, width: int) -> Text:
    if verdict.margin is None:
        return Text(" no margin: the draft was not scored")
    holds = ">=" if verdict.margin >= verdict.min_margin else "<"
    floor = number(verdict.min_margin)
    return Text(f" least margin {number(verdict.margin)} logits {holds} floor {floor}")
