"""The pair's texts: prompts from the bundled preset, and the dialogues that the pair is taught.

A dialogue has two parts: the *prefix* (system text and image), equal for all questions, and the
*branch* (from the question to the end), which carries marks for the trainer.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from .questions import Question
from .world import Thing, cell_box

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VIEW_TOKENS = 16
DRAFTER_EXTENT = 1000
VERIFIER_EXTENT = 112
TURN_END = "<|im_end|>\n<|im_start|>assistant\n"


def view(tokens: int = VIEW_TOKENS) -> str:
    """An image of that many tokens."""
    return "<|vision_start|>" + "<|image_pad|>" * tokens + "<|vision_end|>"


@cache
def preset() -> dict[str, Any]:
    """The bundled preset: the only place where the prompts are written down."""
    text = resources.files("specctl.presets").joinpath("bundled.toml").read_text("utf-8")
    return tomllib.loads(text)


def prefix(role: str) -> str:
    """System text and first image of a drafter's or verifier's dialogue."""
    system = preset()[role]["system"]
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{view()}"


def asked(role: str, question: str, instruction: str) -> str:
    """The rest of the prompt: the question, the instruction, and the opening of the reply."""
    text: str = preset()[role]["question"].replace("{question}", question)
    return text + instruction + TURN_END


def tool_call(thing: Thing, extent: int) -> str:
    """A zoom into the object's cell, as a model writes it."""
    call = {
        "name": "image_zoom_in_tool",
        "arguments": {"bbox_2d": list(cell_box(thing.cell, extent))},
    }
    return f"<tool_call>{json.dumps(call)}</tool_call>"


@dataclass(frozen=True)
class Hint:
    """Help for the trainer: the token that predicts the word at `at` should look at `target`.

    `at` and `target` are character positions in the branch; `target` may also be an image token,
    ("scene", index) in the overview or ("crop", k, index) in the dialogue's k-th crop, or the first
    token of all, ("sink", 0). Where `reading` is true, it is the word itself that looks.
    """

    slot: str
    at: int
    target: int | tuple[str, int] | tuple[str, int, int]
    reading: bool = False


@dataclass
class Dialogue:
    """One branch: its text, the stretches to learn, the words that matter most, hints, crops."""

    kind: str
    text: str = ""
    learnt: list[tuple[int, int]] = field(default_factory=list)
    keys: list[tuple[str, int]] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)
    crops: list[Thing] = field(default_factory=list)

    def say(self, text: str) -> int:
        """Append text; returns where its first letter stands."""
        at = len(self.text) + len(text) - len(text.lstrip(" "))
        self.text += text
        return at

    def key(self, name: str, text: str, *looks: tuple[str, Any]) -> int:
        """Append one word that matters, with the hints for the token that predicts it."""
        at = self.say(text)
        self.keys.append((name, at))
        self.hints.extend(Hint(slot, at, target) for slot, target in looks)
        return at


Looks = list[tuple[str, Any]]


def _open(
    role: str, question: Question, instruction: str, kind: str
) -> tuple[Dialogue, list[int], Looks]:
    """A dialogue up to the reply; also where the words stand that refer to objects or a shape."""
    before = preset()[role]["question"].index("{question}")
    dialogue = Dialogue(kind, asked(role, question.text, instruction))
    places = []
    for word in question.words:
        places.append(before + word.start)
        target = ("scene", word.thing.cell) if word.thing else ("sink", 0)
        dialogue.hints.append(Hint("find", before + word.start, target, reading=True))
    shape: Looks = []
    if question.shape_at is not None:
        shape.append(("compare", before + question.shape_at))
    return dialogue, places, shape


def _say_call(dialogue: Dialogue, thing: Thing, extent: int, place: int) -> None:
    """Append a tool call whose coordinates are keys that refer to the object's word."""
    call = tool_call(thing, extent)
    head, numbers = call[: call.index("[") + 1], call[call.index("[") + 1 : call.index("]")]
    dialogue.key("call", head, ("refer", place))
    for index, number in enumerate(numbers.split(", ")):
        dialogue.key("box", number if index == 0 else f" {number}", ("refer", place))
        if index < 3:
            dialogue.say(",")
    dialogue.say(call[call.index("]") :])


def drafter_answer(question: Question) -> Dialogue:
    """The drafter's answer: one word."""
    instruction = preset()["drafter"]["answer"]
    dialogue, places, shape = _open("drafter", question, instruction, question.kind)
    start = len(dialogue.text)
    looks: Looks = [("refer", places[0]), *shape]
    if len(places) > 1:
        looks.append(("compare", places[1]))
    dialogue.key("answer", question.answer, *looks)
    dialogue.say("<|im_end|>")
    dialogue.learnt.append((start, len(dialogue.text)))
    return dialogue


def drafter_plan(question: Question) -> Dialogue:
    """The drafter's plan: the calls it expects of the verifier, or the word for none."""
    texts = preset()["drafter"]
    dialogue, places, _ = _open("drafter", question, texts["plan"], f"plan:{question.kind}")
    start = len(dialogue.text)
    if not question.zooms:
        dialogue.key("none", texts["plan_none"], ("refer", places[0]))
    for place, thing in zip(places, question.zooms, strict=False):
        _say_call(dialogue, thing, DRAFTER_EXTENT, place)
        dialogue.say("<tool_response>the")
        dialogue.key("colour", f" {thing.colour}", ("refer", place))
        dialogue.say(" object</tool_response>")
    dialogue.say("<|im_end|>")
    dialogue.learnt.append((start, len(dialogue.text)))
    return dialogue


def _say_answer(dialogue: Dialogue, answer: str, *looks: tuple[str, Any]) -> None:
    dialogue.say("</think><answer>")
    dialogue.key("answer", answer, *looks)
    dialogue.say("</answer><|im_end|>")


def verifier_dialogue(question: Question) -> Dialogue:
    """The verifier's loop: an answer at once, or a zoom for each small object before it."""
    instruction = preset()["verifier"]["instruction"]
    dialogue, places, shape = _open("verifier", question, instruction, question.kind)
    start = len(dialogue.text)
    dialogue.say("<think>")
    if question.zooms:
        dialogue.key("decide", "Too", ("refer", places[0]))
        dialogue.say(" small.</think>")
        _say_zooms(dialogue, question, places, start, shape)
        return dialogue
    if question.kind == "colour-large":
        dialogue.key("decide", "It", ("refer", places[0]))
        dialogue.say(" is")
        seen = dialogue.key("seen", f" {question.answer}", ("refer", places[0]))
        dialogue.say(".")
        _say_answer(dialogue, question.answer, ("seen", seen))
    elif question.kind == "present-colour":
        found = question.words[0].thing is not None
        dialogue.key("decide", "Yes" if found else "No", ("refer", places[0]))
        dialogue.say(".")
        _say_answer(dialogue, question.answer, ("refer", places[0]))
    else:
        thing = question.words[0].thing
        assert thing is not None
        dialogue.key("decide", "I", ("refer", places[0]))
        dialogue.say(" see a")
        seen = dialogue.key("seen", f" {thing.shape}", ("refer", places[0]))
        dialogue.say(".")
        _say_answer(dialogue, question.answer, ("seen", seen), *shape)
    dialogue.learnt.append((start, len(dialogue.text)))
    return dialogue


def _say_zooms(
    dialogue: Dialogue,
    question: Question,
    places: list[int],
    start: int,
    shape: Looks,
) -> None:
    before: tuple[int, Thing] | None = None
    for index, (place, thing) in enumerate(zip(places, question.zooms, strict=False)):
        _say_call(dialogue, thing, VERIFIER_EXTENT, place)
        dialogue.say("<|im_end|>")
        dialogue.learnt.append((start, len(dialogue.text)))
        dialogue.say(f"\n<|im_start|>user\n<tool_response>{view()}</tool_response>{TURN_END}")
        dialogue.crops.append(thing)
        start = len(dialogue.text)
        dialogue.say("<think>I see a")
        look = ("look", ("crop", index, thing.crop_token))
        seen = dialogue.key("seen", f" {thing.shape}", look)
        if index + 1 < len(question.zooms):
            dialogue.say(".</think>")
            before = seen, thing
    if before is None:
        dialogue.say(".")
        _say_answer(dialogue, question.answer, ("seen", seen), *shape)
    else:
        dialogue.say(", before a")
        again = dialogue.key("again", f" {before[1].shape}", ("seen", before[0]))
        dialogue.say(".")
        _say_answer(dialogue, question.answer, ("seen", seen), ("compare", again))
    dialogue.learnt.append((start, len(dialogue.text)))
