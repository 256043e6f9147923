"""The view of one query as rows of text, the same rows while it runs and as its final record.

Below 80 columns the bars go, below 70 the tokens' row; the verdict never does.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from specctl.render.bars import axis
from specctl.render.draft_rows import plan_rows, token_row
from specctl.render.state import RunState
from specctl.render.step_rows import running_rows, step_rows
from specctl.render.symbols import Symbols
from specctl.render.text import clean, fit, number, plural, row, seconds
from specctl.render.timeline import answering_ns, loading_ns, timeline
from specctl.types import Outcome, Reason, Verdict

MAX_WIDTH = 100
_LABEL = 12


@dataclass(frozen=True, slots=True)
class Header:
    """What is known before the query starts."""

    command: str
    facts: tuple[str, ...]
    warning: str = ""


def frame(state: RunState, header: Header, width: int, symbols: Symbols) -> list[Text]:
    """All rows, none wider than `width`."""
    width = min(width, MAX_WIDTH)
    rows = [
        *_head(state, header, width, symbols),
        *_draft(state, width, symbols),
        *_gate(state, width, symbols),
        *_verification(state, width, symbols),
        *_end(state, width, symbols),
    ]
    return [_cut(text, width, symbols) for text in rows]


def mark(symbol: str, word: str, style: str) -> Text:
    """` ● gate      `: a symbol and a word in a column of fixed width."""
    text = Text(" ").append(f"{symbol} {word}", style=style)
    text.pad_right(max(1, _LABEL + 1 - text.cell_len))
    return text


def _cut(text: Text, width: int, symbols: Symbols) -> Text:
    if text.cell_len <= width:
        return text
    text.truncate(max(0, width - len(symbols.ellipsis)))
    return text.append(symbols.ellipsis)


def _head(state: RunState, header: Header, width: int, symbols: Symbols) -> list[Text]:
    title = f" specctl {header.command}"
    rows = [
        Text.assemble((title, "bold"), "  ", _joined(header.facts, width - len(title) - 2, symbols))
    ]
    for warning in (header.warning, *state.warnings):
        rows += _wrapped(f"{symbols.warning} {warning}", width, "yellow") if warning else []
    if state.image is not None:
        rows.append(_image(state, width, symbols))
    if state.loading is not None:
        rows.append(Text(f" loading the {state.loading} {symbols.ellipsis}", style="dim"))
    return [*rows, Text()]


def _joined(facts: tuple[str, ...], width: int, symbols: Symbols) -> Text:
    """As many facts as fit on the row, the first ones first."""
    line = ""
    for fact in facts:
        longer = f"{line} {symbols.dot} {clean(fact)}" if line else clean(fact)
        if Text(longer).cell_len > width:
            break
        line = longer
    return Text(line, style="dim")


def _wrapped(line: str, width: int, style: str) -> list[Text]:
    """Words over as many rows as they need, continued under the first word."""
    rows, current = [], ""
    for word in line.split():
        if current and Text(f" {current} {word}").cell_len > width:
            rows.append(current)
            current = " " * 2 + word
        else:
            current = f"{current} {word}" if current else word
    return [Text(f" {text}", style=style) for text in (*rows, current)]


def _image(state: RunState, width: int, symbols: Symbols) -> Text:
    """Name and size, and what each model sees of it, as far as there is room."""
    assert state.image is not None
    x, image = symbols.times, state.image
    shown = f"{image.width}{x}{image.height}"
    views = [
        f"{role} {columns}{x}{lines} ({state.image_tokens.get(role, 0)} tok)"
        for role, (columns, lines) in state.view_sizes.items()
    ]
    name = fit(clean((image.path or "image").rsplit("/", 1)[-1]), width // 3, symbols.ellipsis)
    for index, view in enumerate(views):
        longer = f"{shown} {symbols.dot if index else symbols.arrow} {view}"
        if cell_len(f" {name}  {longer}") <= width:
            shown = longer
    return Text(f" {name}  ").append(shown, style="dim")


def _draft(state: RunState, width: int, symbols: Symbols) -> list[Text]:
    if not state.draft_tokens and state.draft is None:
        return []
    label = mark(symbols.point, "draft", "cyan")
    text = state.draft.answer if state.draft else "".join(t.text for t in state.draft_tokens)
    cursor = symbols.cursor if state.draft is None else ""
    took = seconds(max(0, state.draft_ended_ns - state.draft_began_ns))
    facts = f"{len(state.draft_tokens)} tok  {took}"
    shown = fit(clean(text) or "(empty)", width - _LABEL - len(facts) - 4, symbols.ellipsis)
    rows = [row(label.append(shown, style="bold").append(cursor), facts, width)]
    if width >= 70 and state.draft_tokens:
        rows.append(token_row(state, width, _LABEL, symbols))
    return [*rows, *plan_rows(state, width, _LABEL, symbols)]


def _gate(state: RunState, width: int, symbols: Symbols) -> list[Text]:
    verdict = state.verdict
    return gate_rows(verdict, state, width, symbols) if verdict is not None else []


def gate_rows(verdict: Verdict, state: RunState, width: int, symbols: Symbols) -> list[Text]:
    """Score against threshold on one axis, what decided, and the verdict in words."""
    label = mark(symbols.point, "gate", "cyan")
    bound = f"{symbols.tau} {number(verdict.threshold, 3)}"
    if verdict.score is None:
        return [label.append(f"no score  {bound}"), *_verdict(verdict, state, width, symbols)]
    tail = f"{verdict.aggregate} over {plural(len(state.draft_tokens), 'token')}"
    score = number(verdict.score, 3)
    label.append("score ").append(score, style="bold").append("  ")
    if width >= 80:
        cells = width - label.cell_len - len(bound) - len(tail) - 6
        label.append_text(axis(verdict, cells, symbols)).append(f"  {bound}")
    else:
        label.append(f"{'>' if verdict.score > verdict.threshold else '<='} {bound}")
    detail = Text(" " * (_LABEL + 1)).append(
        _deciding(verdict, state, width - _LABEL - 1, symbols), style="dim"
    )
    return [row(label, tail, width), detail, *_verdict(verdict, state, width, symbols)]


def _deciding(verdict: Verdict, state: RunState, room: int, symbols: Symbols) -> str:
    """What decided, as much of it as there is room for."""
    said = f"raw {number(verdict.raw)}"
    if verdict.token_index is not None and verdict.token_index < len(state.draft_tokens):
        token = clean(state.draft_tokens[verdict.token_index].text).strip()
        said += f' at "{fit(token, 16, symbols.ellipsis)}"'
    floor = f" (floor {verdict.min_margin:g})" if verdict.min_margin else ""
    for part in (f"margin {number(verdict.margin)}{floor}", f"K {verdict.top_k}"):
        longer = f"{said} {symbols.dot} {part}"
        said = longer if cell_len(longer) <= room else said
    return said


def _verdict(verdict: Verdict, state: RunState, width: int, symbols: Symbols) -> list[Text]:
    if verdict.accepted:
        label = mark(symbols.accepted, "accepted", "bold green")
        return [label.append("verification did not fire: no tool ran")]
    outcome = state.result.outcome if state.result is not None else None
    word = "verifying" if outcome is None else "deferred"
    if outcome is Outcome.VERIFIED:
        word = "verified"
    label = mark(symbols.verified, word, "bold yellow")
    lead = "" if outcome is Outcome.DEFERRED else "verification fired: "
    text = f"{lead}{verdict.reason} ({reason_text(verdict.reason)})"
    return [
        label.append(text if label.cell_len + len(text) <= width else f"{lead}{verdict.reason}")
    ]


def reason_text(reason: Reason) -> str:
    """Why the gate decided so, in words."""
    words = {
        Reason.BELOW_THRESHOLD: "the score is not above the threshold",
        Reason.NARROW_MARGIN: "a token's margin is under the floor",
        Reason.EMPTY: "the draft is empty",
        Reason.TRUNCATED: "the draft was cut off at its limit",
        Reason.NON_FINITE: "the draft's scores are not numbers",
        Reason.DEGENERATE: "the draft repeats itself or holds no word",
        Reason.NOT_AN_OPTION: "the draft is none of the options",
    }
    return words.get(reason, "the score is above the threshold")


def _verification(state: RunState, width: int, symbols: Symbols) -> list[Text]:
    rows: list[Text] = []
    for seen in state.steps:
        rows += step_rows(seen, width, _LABEL, symbols)
    if state.running is not None:
        rows += running_rows(state.running, len(state.steps) + 1, width, _LABEL, symbols)
    return rows


def _end(state: RunState, width: int, symbols: Symbols) -> list[Text]:
    result = state.result
    if result is None:
        return []
    rows: list[Text] = []
    if result.outcome is Outcome.FAILED and result.error is not None:
        label = mark(symbols.failed, "failed", "bold red")
        rows.append(label.append(clean(f"{result.error.code}: {result.error.message}")))
    if result.outcome is Outcome.VERIFIED and result.draft is not None:
        rows.append(_comparison(result.draft.answer, result.answer or "", width, symbols))
    spans = result.runtime.spans
    if spans:
        rows += [Text(), *timeline(spans, width, symbols)]
        took = f" {seconds(answering_ns(spans))} from image to answer"
        if loading := loading_ns(spans):
            took += f" {symbols.dot} {seconds(loading)} more to load models"
        legend = f"{symbols.prefill} prefill  {symbols.decode} decode" if width >= 80 else ""
        rows.append(row(Text(took), legend, width))
    return rows


def _comparison(drafted: str, verified: str, width: int, symbols: Symbols) -> Text:
    """Whether deferring changed anything."""
    room = max(8, (width - _LABEL - 40) // 2)
    draft, answer = (fit(clean(t), room, symbols.ellipsis) for t in (drafted, verified))
    if drafted.strip() == verified.strip():
        return Text(" " * (_LABEL + 1) + f'the verifier agrees with the draft: "{answer}"')
    text = Text(" " * (_LABEL + 1) + f'draft "{draft}" {symbols.differs} verifier "{answer}"')
    remark = ": deferring changed the answer"
    return text.append(remark) if text.cell_len + len(remark) <= width else text
