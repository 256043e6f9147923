"""Golden frames of a batch: while it runs and at its end, in 100 and 60 columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from shown import CERTAIN, IMAGE, UNCERTAIN, _verifying, verdict, verified
from specctl.events import Event, Finished, ModelLoading, QueryStarted, TokenDecoded
from specctl.journal import result_to_dict
from specctl.metrics.tally import Tally
from specctl.render.batch_live import LiveBatch, PlainBatch
from specctl.render.batch_state import BatchState
from specctl.render.batch_summary import summary_dict, summary_rows
from specctl.render.batch_view import BatchHeader, frame
from specctl.render.run_view import Header
from specctl.render.symbols import ASCII, UNICODE, Symbols
from specctl.trace import Phase
from specctl.types import (
    Draft,
    Failure,
    Outcome,
    Query,
    Result,
    Role,
    StopReason,
    Trajectory,
)
from test_render_frames import check_golden

S = 1_000_000_000
HEADER = BatchHeader(
    "data/questions.jsonl",
    "results.jsonl",
    Header(
        "batch",
        ("drafter models/drafter", "verifier models/verifier", "threshold 0.98"),
        "this pair knows only drawn scenes of shapes; for photographs give another pair",
    ),
)


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


def record(number: int, outcome: Outcome, answer: str | None = "dark green") -> dict[str, Any]:
    """Row `number`, ended in this way."""
    accepted = outcome is Outcome.ACCEPTED
    tokens = CERTAIN if accepted else UNCERTAIN
    failure = Failure("budget.turns", "no answer within 6 turns")
    steps = tuple(_verifying()[2]) if outcome is Outcome.VERIFIED else ()
    result = Result(
        Query(f"q-{number:04}", "street.png", "Which?", reference="dark green"),
        IMAGE,
        None if outcome is Outcome.FAILED else answer,
        outcome,
        Draft("dark green", tokens, StopReason.EOS),
        verdict(tokens),
        Trajectory(steps),
        error=failure if outcome is Outcome.FAILED else None,
    )
    return result_to_dict(result, {})


def records(count: int) -> Iterator[dict[str, Any]]:
    """Mostly accepted, every third verified, two failed."""
    for number in range(count):
        failed = number in (31, 88)
        outcome = Outcome.VERIFIED if number % 3 == 0 else Outcome.ACCEPTED
        answer = "dark green" if number % 7 else "red"
        yield record(number, Outcome.FAILED if failed else outcome, answer)


def fresh() -> BatchState:
    return BatchState(200, Hand())


def under_way() -> BatchState:
    """142 of 200 rows, and one of them verifying."""
    state = fresh()
    for item in records(142):
        state.end(item)
    state.clock.ns = 72 * S  # type: ignore[attr-defined]
    for event, _ in verified():
        if isinstance(event, Finished):
            break
        state.take("q-0142", event)
    state.loading_ns = 0
    return state


def at_end() -> BatchState:
    """All of 200 rows, 20 of them done before."""
    state = fresh()
    for number, item in enumerate(records(200)):
        if number < 20:
            state.keep(item)
        else:
            state.end(item)
    state.clock.ns = 103 * S  # type: ignore[attr-defined]
    state.loading_ns = 3 * S
    return state


def loading() -> BatchState:
    state = fresh()
    state.take("q-0000", QueryStarted(Query("q-0000", "a.png", "?")))
    state.take("q-0000", ModelLoading(Role.DRAFTER))
    return state


def drawn(rows: list[Text], width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False)
    for row in rows:
        console.print(row)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().split("\n"))


@pytest.mark.parametrize("width", [100, 60])
def test_frames_look_as_they_did(width: int) -> None:
    stories = {
        "loading": frame(loading(), HEADER, width, UNICODE),
        "running": frame(under_way(), HEADER, width, UNICODE),
        "ended": summary_rows(at_end(), HEADER, width, UNICODE),
    }
    for name, rows in stories.items():
        assert max(row.cell_len for row in rows) <= width
        check_golden(f"batch_{name}_{width}.txt", drawn(rows, width))


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100])
def test_a_running_frame_keeps_its_height(width: int) -> None:
    heights = {len(frame(s, HEADER, width, UNICODE)) for s in (fresh(), loading(), under_way())}
    assert len(heights) == 1


@pytest.mark.parametrize("width", [30, 40, 59, 60, 79, 80, 140])
@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
def test_no_row_is_wider_than_the_page(width: int, symbols: Symbols) -> None:
    state = under_way()
    long = record(7, Outcome.VERIFIED, "看板の色は緑色です🎉\x1b[2J\u202e" * 20)
    state.end({**long, "id": "très/long/" * 20})
    for rows in (frame(state, HEADER, width, symbols), summary_rows(state, HEADER, width, symbols)):
        assert max(row.cell_len for row in rows) <= min(width, 100)
        text = "".join(row.plain for row in rows)
        assert not set(text) & {"\x1b", "\u202e", "\n"}
    if symbols is ASCII:
        assert drawn(frame(under_way(), HEADER, width, ASCII), width).isascii()


def test_without_a_total_there_is_no_bar_and_no_eta() -> None:
    state = under_way()
    state.total = None
    text = drawn(frame(state, HEADER, 100, UNICODE), 100)
    assert "142 rows   1.97 rows/s" in text
    assert "eta" not in text
    state.total = 100  # an estimate that was too low
    assert "142/142" in drawn(frame(state, HEADER, 100, UNICODE), 100)


def test_a_batch_without_rows_has_no_numbers() -> None:
    text = drawn(summary_rows(fresh(), HEADER, 100, UNICODE), 100)
    assert "none" in text
    assert summary_dict(fresh(), HEADER)["acceptance"]["value"] is None


def test_failures_count_as_wrong_and_are_named() -> None:
    state = at_end()
    accuracy = state.tally.accuracy
    assert (accuracy.all.n, accuracy.failed) == (200, 2)
    assert accuracy.accepted.n + accuracy.verified.n == 198
    text = drawn(summary_rows(state, HEADER, 100, UNICODE), 100)
    assert "2 rows             counted as wrong" in text
    assert "q-0031  budget.turns" in text


def test_only_the_first_failed_rows_are_held() -> None:
    tally = Tally()
    for number in range(1000):
        tally.add(record(number, Outcome.FAILED))
    assert len(tally.failed) == 5
    assert tally.codes == {"budget.turns": 1000}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def token() -> Event:
    return TokenDecoded(Role.DRAFTER, Phase.DRAFT_DECODE, CERTAIN[0])


def test_the_live_view_repaints_ten_times_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    state, stream = fresh(), Terminal()
    view = LiveBatch(state, HEADER, stream)
    for _ in range(1000):
        state.clock.ns += S // 1000  # type: ignore[attr-defined]
        view.event(token())
    frames = stream.getvalue().count("specctl batch")
    assert 9 <= frames <= 12
    view.close(summary=True)
    assert stream.getvalue().endswith("\x1b[?25h")


def test_plain_lines_come_every_two_seconds_and_failures_at_once() -> None:
    state, stream = fresh(), io.StringIO()
    view = PlainBatch(state, HEADER, stream)
    for item in records(100):
        state.clock.ns += S // 10  # type: ignore[attr-defined]
        view.ended(state.end(item))
    view.close(summary=False)
    words = [line.split()[0] for line in stream.getvalue().splitlines()]
    assert words.count("batch") == 5
    assert words.count("failed") == 2
    assert words[0] == "warning:"
