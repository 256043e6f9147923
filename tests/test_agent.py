"""Protocol text, boxes and plans: what models write, and what it is taken to mean."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted import token
from specctl.agent.boxes import BoxError, BoxReader
from specctl.agent.plan import opens_plan, parse_plan
from specctl.agent.protocol import CallError, parse_call, parse_turn
from specctl.agent.tools import ToolBox, ToolError, same_effect
from specctl.presets import BoxPolicy, Frame
from specctl.types import Box, StopReason, ToolCall

EOS, STOP, LIMIT = StopReason.EOS, StopReason.STOP_STRING, StopReason.LIMIT
CALL = '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1, 2, 3, 4]}}'


@pytest.mark.parametrize(
    ("text", "stop", "answer"),
    [
        ("<think>a</think><answer>red</answer>", STOP, "red"),
        ("<answer> red </answer>", STOP, "red"),
        ("<answer>red", EOS, "red"),
        (f"<tool_call>{CALL}</tool_call><answer>red</answer>", STOP, "red"),
        (f"<answer>red</answer><tool_call>{CALL}</tool_call>", EOS, "red"),
        ("<think>I may write <answer>x</answer></think><answer>y</answer>", EOS, "y"),
    ],
)
def test_answers(text: str, stop: StopReason, answer: str) -> None:
    turn = parse_turn(text, stop)
    assert turn.answer == answer
    assert turn.call is None


@pytest.mark.parametrize(
    "written",
    [
        CALL,
        f"\n```json\n{CALL}\n```\n",
        CALL.replace('"', "'"),
        CALL[:-1],
        f"[{CALL}]",
        CALL.replace("]}", "],}"),
    ],
    ids=["plain", "fence", "single quotes", "brace lost", "in a list", "trailing comma"],
)
def test_calls_that_are_mended(written: str) -> None:
    turn = parse_turn(f"<think>t</think><tool_call>{written}</tool_call>", STOP)
    assert turn.call == ToolCall("image_zoom_in_tool", {"bbox_2d": [1, 2, 3, 4]})
    assert turn.thought == "t"


def test_the_first_of_several_calls_counts() -> None:
    second = CALL.replace("[1", "[9")
    turn = parse_turn(f"<tool_call>{CALL}</tool_call><tool_call>{second}</tool_call>", EOS)
    assert turn.call is not None
    assert turn.call.arguments["bbox_2d"] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        (f"<tool_call>{CALL}", LIMIT),
        ("<answer>re", LIMIT),
        ("<think>hm", LIMIT),
        ("", EOS),
        ("just words", EOS),
        ("<answer></answer>", STOP),
        ("<answer>a<answer>b</answer>", STOP),
        ("<tool_call>zoom</tool_call>", STOP),
        ("<tool_call>[]</tool_call>", STOP),
        ('<tool_call>{"arguments": {}}</tool_call>', STOP),
        ('<tool_call>{"name": "x", "arguments": 3}</tool_call>', STOP),
        ("<tool_call>" + "[" * 5000 + "</tool_call>", STOP),
    ],
)
def test_turns_that_are_neither(text: str, stop: StopReason) -> None:
    turn = parse_turn(text, stop)
    assert turn.answer is None
    assert turn.call is None
    assert turn.problem


@given(st.text(), st.sampled_from(list(StopReason)))
def test_any_text_parses(text: str, stop: StopReason) -> None:
    turn = parse_turn(text, stop)
    assert sum(part is not None for part in (turn.answer, turn.call, turn.problem)) == 1


@given(st.text(alphabet='{}[]":,abc01 \\n', max_size=60))
def test_any_call_text_is_a_call_or_a_call_error(text: str) -> None:
    try:
        call = parse_call(text)
    except CallError:
        return
    assert call.name


def reader(frame: Frame = Frame.ABSOLUTE_RESIZED, **policy: float) -> BoxReader:
    return BoxReader(frame, (2000, 1000), (200, 100), BoxPolicy(**policy))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("numbers", "box"),
    [
        ([10, 20, 50, 60], Box(100, 200, 500, 600)),
        ([50, 60, 10, 20], Box(100, 200, 500, 600)),
        ([-5, -5, 1000, 1000], Box(0, 0, 2000, 1000)),
        ([10.04, 20, 50, 60], Box(100, 200, 500, 600)),
        ([199.9, 99.9, 200, 100], Box(1972, 972, 2000, 1000)),
        ([100, 50, 100.1, 50.1], Box(986, 486, 1014, 514)),
    ],
    ids=["plain", "inverted", "clamped", "fractions", "grown at the corner", "grown"],
)
def test_boxes_in_the_view(numbers: list[float], box: Box) -> None:
    assert reader().read(numbers) == box


def test_boxes_in_thousandths() -> None:
    assert reader(Frame.RELATIVE_1000).read([250, 500, 500, 750]) == Box(500, 500, 1000, 750)


@pytest.mark.parametrize(
    "numbers",
    [
        None,
        "1,2,3,4",
        [1, 2, 3],
        [1, 2, 3, [4]],
        [1, 2, 3, "4"],
        [1, 2, 3, True],
        [1, 2, math.nan, 4],
        [1, 2, math.inf, 4],
        [300, 0, 400, 50],
        [50, 20, 50, 60],
        [0, 0, 200, 0.5],
    ],
)
def test_boxes_that_mean_nothing(numbers: object) -> None:
    with pytest.raises(BoxError):
        reader(max_aspect=50.0, min_side_px=2).read(numbers)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4),
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.sampled_from(list(Frame)),
)
def test_every_box_read_lies_inside(
    numbers: list[float], width: int, height: int, frame: Frame
) -> None:
    try:
        box = BoxReader(frame, (width, height), (112, 84), BoxPolicy()).read(numbers)
    except BoxError:
        return
    assert 0 <= box.left < box.right <= width
    assert 0 <= box.top < box.bottom <= height
    assert box.width >= min(28, width)
    assert box.height >= min(28, height)


def test_unknown_tools_are_told_what_there_is() -> None:
    with pytest.raises(ToolError, match="image_zoom_in_tool"):
        ToolBox().resolve(ToolCall("fly", {}), reader())


def test_labels_do_not_make_calls_differ() -> None:
    box = Box(0, 0, 50, 50)
    one = ToolCall("zoom", {"bbox_2d": [0, 0, 5, 5], "label": "a"}, box)
    assert same_effect(one, ToolCall("zoom", {"bbox_2d": [0, 0, 5, 5]}, box))
    assert not same_effect(one, ToolCall("zoom", {}, Box(0, 0, 50, 51)))


def test_plans_are_read_with_expectations_and_least_separability() -> None:
    tokens = [
        token("<tool_call>", 30.0),
        token('{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [0, 0, ', 25.0),
        token("500", 4.0),
        token(", 500]}}", 25.0),
        token("</tool_call>", 30.0),
        token("<tool_response>", 2.0),
        token("a star", 1.0),
        token("</tool_response>", 30.0),
    ]
    (step,) = parse_plan(tokens, ToolBox(), reader(Frame.RELATIVE_1000))
    assert step.tool_call.box_px == Box(0, 0, 1000, 500)
    assert step.expected == "a star"
    assert step.separability == 4.0


@pytest.mark.parametrize(
    ("first", "opens"),
    [("<tool_call>", True), ("<tool", True), (" <tool_call>", True), ("none", False), ("", False)],
)
def test_the_first_token_says_whether_a_tool_is_called(first: str, opens: bool) -> None:
    assert opens_plan(first) is opens


def test_a_part_of_a_pixel_grows_like_any_small_box() -> None:
    reader = BoxReader(Frame.RELATIVE_1000, (500, 500), (500, 500), BoxPolicy())
    assert reader.read([500, 500, 501, 501]) == Box(236, 236, 264, 264)
    with pytest.raises(BoxError):
        reader.read([500, 500, 500, 501])


def test_a_number_of_too_many_digits_is_no_box() -> None:
    call = parse_call(
        '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [%s]}}' % ("1" * 5000)
    )
    with pytest.raises(ToolError):
        ToolBox().resolve(call, BoxReader(Frame.RELATIVE_1000, (9, 9), (9, 9), BoxPolicy()))


def test_a_planned_call_without_numbers_for_scores_is_not_the_surest() -> None:
    reader = BoxReader(Frame.RELATIVE_1000, (400, 200), (100, 100), BoxPolicy())
    call = CALL.replace("1, 2, 3, 4", "0, 0, 500, 500")
    tokens = [token("<tool_call>"), token(call, separability=math.nan), token("</tool_call>")]
    (step,) = parse_plan(tokens, ToolBox(), reader)
    assert math.isnan(step.separability)


def test_an_expected_result_that_is_not_closed_swallows_no_call() -> None:
    reader = BoxReader(Frame.RELATIVE_1000, (400, 200), (100, 100), BoxPolicy())
    call = f"<tool_call>{CALL.replace('1, 2, 3, 4', '0, 0, 500, 500')}</tool_call>"
    text = f"{call}<tool_response>x{call}<tool_response>y</tool_response>"
    steps = parse_plan([token(text)], ToolBox(), reader)
    assert [step.expected for step in steps] == ["x", "y"]


def test_box_corners_are_rounded_not_cut() -> None:
    thirds = BoxReader(Frame.RELATIVE_1000, (1667, 1667), (1, 1), BoxPolicy())
    assert thirds.read([100, 100, 700, 700]) == Box(167, 167, 1167, 1167)
