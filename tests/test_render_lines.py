"""Views off a terminal: plain lines, JSON lines, and the last frame without escape codes."""

from __future__ import annotations

import io
import json
import re

import pytest

import shown
from shown import Timed
from specctl.render.jsonl import JsonLinesView
from specctl.render.live import FinalView, LiveView
from specctl.render.plain import PlainView
from specctl.render.text import clean, clean_block, fit, fit_tail, number, plural, seconds
from specctl.render.view import Silent, View
from test_render_frames import HEADER, STORIES, check_golden


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def isatty(self) -> bool:
        return True


def told(view: View, events: Timed) -> None:
    for event, at_ns in events:
        view.handle("street", event, at_ns)
    view.close()


@pytest.mark.parametrize("story", STORIES)
def test_plain_lines_look_as_they_did(story: str) -> None:
    stream = io.StringIO()
    told(PlainView(stream, HEADER.warning), STORIES[story]())
    check_golden(f"plain_{story}.txt", stream.getvalue())


def test_plain_lines_can_be_taken_apart_again() -> None:
    stream = io.StringIO()
    told(PlainView(stream), shown.verified())
    for line in stream.getvalue().splitlines():
        assert line.isascii()
        assert re.fullmatch(r'\w+( \w+=("(\\.|[^"\\])*"|[^\s"]\S*|\[.*\]))*', line), line
    done = stream.getvalue().splitlines()[-1]
    assert 'outcome=verified answer="87" depth=1' in done


def test_json_lines_are_strict_and_end_with_the_result() -> None:
    stream = io.StringIO()
    told(JsonLinesView(stream), shown.verified())
    records = [json.loads(line, parse_constant=_refuse) for line in stream.getvalue().splitlines()]
    assert [record["event"] for record in records[:3]] == [
        "query_started",
        "image_read",
        "model_loading",
    ]
    assert all(record["id"] == "street" for record in records)
    finished = records[-1]
    assert finished["event"] == "finished"
    assert finished["result"]["schema"] == "specctl.result/1"
    assert finished["result"]["answer"] == "87"
    assert "pixels" not in stream.getvalue()


def test_the_final_frame_has_no_escape_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    told(FinalView(HEADER, stream, 100), shown.verified())
    assert "\x1b" not in stream.getvalue()
    assert "[vf] verified" in stream.getvalue()  # a stream of no known encoding gets ASCII


def test_a_live_view_repaints_seldom_and_leaves_its_last_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "40")
    stream = Terminal()
    told(LiveView(HEADER, stream), shown.verified())
    written = stream.getvalue()
    assert written.count("↻") < 20, "tokens of one moment are not painted one by one"
    last = written[written.rindex("specctl run") :]
    assert "deferring changed the answer" in last
    assert "tools" in last
    assert "\x1b[?25h" in last, "the cursor comes back"


def test_a_live_view_on_a_low_terminal_shows_where_things_happen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "6")
    stream = Terminal()
    told(LiveView(HEADER, stream), shown.thinking())
    assert "running image_zoom_in_tool" in stream.getvalue()


def test_no_colour_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    told(LiveView(HEADER, stream), shown.verified())
    codes = re.findall(r"\x1b\[([0-9;]*)m", stream.getvalue())
    assert not [c for code in codes for c in code.split(";") if c.isdigit() and 30 <= int(c) <= 107]


def test_a_view_closed_before_anything_happened_is_fine() -> None:
    for view in (LiveView(HEADER, Terminal()), FinalView(HEADER, io.StringIO()), Silent()):
        view.warn("careful")
        view.close()


def test_clean_keeps_words_and_drops_what_steers() -> None:
    assert clean("a\tb\r\nc") == "a b c"
    assert "\x1b" not in clean("\x1b[31mred")
    assert clean("看板 é 👩‍🚀") == "看板 é 👩‍🚀"
    assert clean_block("a\nb\x1bc") == "a\nb\N{REPLACEMENT CHARACTER}c"
    assert clean("x\ud800") == "x\N{REPLACEMENT CHARACTER}"


def test_fit_counts_cells() -> None:
    assert fit("abcdef", 4) == "abc…"
    assert fit("看板の色", 5) == "看板…"
    assert fit_tail("看板の色", 5) == "…の色"
    assert fit_tail("abc", 3) == "abc"
    assert fit("abcdef", 0) == "…"


def test_numbers_for_people() -> None:
    assert [seconds(n) for n in (0, 7_000_000, 412_000_000, 12_345_000_000)] == [
        "<1 ms",
        "7 ms",
        "0.41 s",
        "12.3 s",
    ]
    assert number(float("nan")) == "not a number"
    assert number(None) == "none"
    assert plural(1, "call") == "1 call"
    assert plural(0, "call") == "0 calls"


def _refuse(constant: str) -> None:
    raise AssertionError(f"not strict JSON: {constant}")
