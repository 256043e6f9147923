"""Golden frames of the view, and what no frame may ever do.

`UPDATE_GOLDEN=1 pytest tests/test_render_frames.py` rewrites them; look at them before committing.
"""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import shown
from shown import CERTAIN, UNCERTAIN, Timed, verdict
from specctl.events import Drafted, ImageRead, Judged, StepFinished
from specctl.render.gate_view import gate_report
from specctl.render.run_view import Header, frame
from specctl.render.state import RunState
from specctl.render.symbols import ASCII, UNICODE, Symbols, symbols_for
from specctl.types import Aggregate, Draft, ImageFacts, Reason, Step, StopReason

GOLDEN = Path(__file__).parent / "golden"
HEADER = Header(
    "run",
    ("drafter models/drafter", "verifier models/verifier", "threshold 0.98"),
    "bundled pair: two small models trained on drawn scenes of shapes; no use on photographs",
)
STORIES = {
    "accepted": shown.accepted,
    "verified": shown.verified,
    "failed": shown.failed,
    "thinking": shown.thinking,
}


def state_after(events: Timed) -> RunState:
    state = RunState()
    for event, at_ns in events:
        state.take(event, at_ns)
    return state


def drawn(events: Timed, width: int, symbols: Symbols = UNICODE) -> str:
    """The frame as a console of that width prints it."""
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, emoji=False)
    for text in frame(state_after(events), HEADER, width, symbols):
        console.print(text)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().split("\n")
    return "\n".join(line.rstrip() for line in lines)


def check_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("width", [100, 60])
@pytest.mark.parametrize("story", STORIES)
def test_frames_look_as_they_did(story: str, width: int) -> None:
    check_golden(f"view_{story}_{width}.txt", drawn(STORIES[story](), width))


@pytest.mark.parametrize("width", [100, 60])
def test_the_gates_report_looks_as_it_did(width: int) -> None:
    draft = Draft("37", UNCERTAIN, StopReason.EOS)
    aggregates = [(Aggregate.MIN, 3.18, 0.871), (Aggregate.LOG, -0.02, 0.98)]
    rows = gate_report(draft, verdict(UNCERTAIN), aggregates, width, UNICODE)
    text = "\n".join(row.plain.rstrip() for row in rows) + "\n"
    assert max(row.cell_len for row in rows) <= width
    check_golden(f"gate_{width}.txt", text)


@pytest.mark.parametrize("width", [40, 59, 60, 72, 79, 80, 100, 140])
@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
@pytest.mark.parametrize("story", STORIES)
def test_no_row_is_wider_than_the_page(story: str, symbols: Symbols, width: int) -> None:
    rows = frame(state_after(STORIES[story]()), HEADER, width, symbols)
    assert max(row.cell_len for row in rows) <= min(width, 100)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_the_verdict_is_never_dropped_and_said_in_words(width: int) -> None:
    assert "✓ accepted" in drawn(shown.accepted(), width)
    assert "↻ verified" in drawn(shown.verified(), width)
    assert "✗ failed" in drawn(shown.failed(), width)


def test_an_encoding_without_the_marks_gets_ascii() -> None:
    assert symbols_for("utf-8") is UNICODE
    for encoding in ("ascii", "latin-1", "cp1252", "no-such-encoding", None):
        assert symbols_for(encoding) is ASCII
    text = drawn(shown.verified(), 100, ASCII)
    assert text.isascii()
    assert "[vf] verified" in text
    assert "[ok] accepted" in drawn(shown.accepted(), 100, ASCII)
    assert "[!!] failed" in drawn(shown.failed(), 100, ASCII)


@pytest.mark.parametrize("width", [60, 100])
def test_nothing_from_outside_steers_the_terminal_or_is_markup(width: int) -> None:
    nasty = "a\x1b[2Jb\x07 [red]x[/red] \u202e\x9b1mend\nnext"
    events = [(_spoilt(event, nasty), at_ns) for event, at_ns in shown.verified()]
    text = drawn(events, width)
    assert not [c for c in text if c < " " and c != "\n"]
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "[red]x[/red]" in text


def test_wide_characters_count_as_two_cells() -> None:
    events = [(_spoilt(event, "看板の色は緑色です🎉" * 12), at) for event, at in shown.verified()]
    for width in (60, 80, 100):
        assert max(r.cell_len for r in frame(state_after(events), HEADER, width, UNICODE)) <= width


def test_draft_without_a_score_says_why() -> None:
    events = shown.failed()
    flawed = verdict(
        UNCERTAIN, score=None, raw=None, margin=None, token_index=None, reason=Reason.EMPTY
    )
    events = [(Judged(flawed) if isinstance(e, Judged) else e, at) for e, at in events]
    text = drawn(events, 100)
    assert "no score" in text
    assert "the draft is empty" in text


def test_score_and_threshold_never_share_a_cell() -> None:
    for raw, score in ((6.48, 0.9799), (6.50, 0.9801), (0.0, 0.5), (99.0, 1.0), (-5.0, 0.05)):
        close = verdict(CERTAIN, raw=raw, score=score)
        events = [(Judged(close) if isinstance(e, Judged) else e, at) for e, at in shown.accepted()]
        line = next(line for line in drawn(events, 100).splitlines() if "━" in line)
        assert "╋" in line
        point = line.find("▶") if "▶" in line else line.rfind("●")
        assert (point > line.find("╋")) == (score > 0.98)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("aggregate", list(Aggregate))
def test_every_threshold_can_be_drawn(aggregate: Aggregate, threshold: float) -> None:
    any_verdict = verdict(CERTAIN, threshold=threshold, aggregate=aggregate)
    events = [
        (Judged(any_verdict) if isinstance(e, Judged) else e, at) for e, at in shown.accepted()
    ]
    assert "╋" in drawn(events, 100)


def test_a_long_thought_is_kept_only_in_part() -> None:
    events = shown.thinking()
    token_event = next(e for e, _ in reversed(events) if "Token" in type(e).__name__)
    state = state_after([*events[:-1], *((token_event, at) for _, at in [events[-1]] * 5000)])
    assert state.running is not None
    assert len(state.running.tail) <= 120
    assert state.running.num_tokens > 5000


def _spoilt(event: object, text: str) -> object:
    """The event with text from outside replaced."""
    if isinstance(event, ImageRead):
        return ImageRead(ImageFacts(f"{text}.png", 10, 10, "0"))
    if isinstance(event, Drafted):
        return Drafted(replace(event.draft, answer=text))
    if isinstance(event, StepFinished):
        step: Step = event.step
        return StepFinished(replace(step, thought=text, answer=step.answer and text))
    return event
