"""Questions about a scene, with the objects they speak of and the zooms they need."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .world import COLOURS, SHAPES, Scene, Thing

SHAPE_FORMS = (
    "What shape is the {colour} object?",
    "Which shape does the {colour} object have?",
    "What is the shape of the {colour} object?",
    "Name the shape of the {colour} object.",
)
COLOUR_FORMS = (
    "What colour is the {shape}?",
    "Which colour does the {shape} have?",
    "What is the colour of the {shape}?",
    "Name the colour of the {shape}.",
)
PRESENCE_FORMS = (
    "Is there {article} {colour} {noun}?",
    "Do you see {article} {colour} {noun}?",
    "Is {article} {colour} {noun} in the picture?",
)
SAME_FORMS = (
    "Do the {first} object and the {second} object have the same shape?",
    "Are the {first} object and the {second} object the same shape?",
    "Is the {first} object of the same shape as the {second} object?",
)

KINDS = (
    "shape-large",
    "shape-small",
    "colour-large",
    "present-colour",
    "present-large",
    "present-small",
    "same-small",
)
"""What is asked, and the size of the objects that must be read to answer."""


@dataclass(frozen=True)
class Word:
    """A word of the question that points at an object, or at none where `thing` is None."""

    start: int
    thing: Thing | None


@dataclass(frozen=True)
class Question:
    """A question, its answer, the words for objects and for a shape, and the zooms it needs."""

    kind: str
    text: str
    answer: str
    words: tuple[Word, ...]
    shape_at: int | None = None
    zooms: tuple[Thing, ...] = ()


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


def _ask_shape(rng: random.Random, things: Sequence[Thing], kind: str) -> Question | None:
    if not things:
        return None
    thing = rng.choice(things)
    text = rng.choice(SHAPE_FORMS).format(colour=thing.colour)
    zooms = () if thing.large else (thing,)
    return Question(kind, text, thing.shape, (Word(text.index(thing.colour), thing),), None, zooms)


def _ask_colour(rng: random.Random, scene: Scene) -> Question | None:
    shapes = [thing.shape for thing in scene.things]
    unique = [thing for thing in scene.large() if shapes.count(thing.shape) == 1]
    if not unique:
        return None
    thing = rng.choice(unique)
    text = rng.choice(COLOUR_FORMS).format(shape=thing.shape)
    return Question("colour-large", text, thing.colour, (Word(text.index(thing.shape), thing),))


def _presence(rng: random.Random, colour: str, noun: str) -> str:
    article = "an" if colour[0] in "aeiou" else "a"
    return rng.choice(PRESENCE_FORMS).format(article=article, colour=colour, noun=noun)


def _ask_colour_presence(rng: random.Random, scene: Scene) -> Question:
    thing = rng.choice(scene.things) if rng.random() < 0.5 else None
    colour = thing.colour if thing else rng.choice(scene.absent_colours())
    noun = "object" if thing or rng.random() < 0.5 else rng.choice(SHAPES)
    text = _presence(rng, colour, noun)
    word = Word(text.index(colour), thing)
    return Question("present-colour", text, _yes(thing is not None), (word,))


def _ask_presence(rng: random.Random, things: Sequence[Thing], kind: str) -> Question | None:
    if not things:
        return None
    thing = rng.choice(things)
    shape = thing.shape
    if rng.random() < 0.5:
        shape = rng.choice([other for other in SHAPES if other != thing.shape])
    text = _presence(rng, thing.colour, shape)
    word = Word(text.index(thing.colour), thing)
    zooms = () if thing.large else (thing,)
    answer = _yes(shape == thing.shape)
    return Question(kind, text, answer, (word,), text.index(shape), zooms)


def _ask_same(rng: random.Random, scene: Scene) -> Question | None:
    small = scene.small()
    pairs = [(a, b) for a in small for b in small if a is not b]
    alike = [pair for pair in pairs if pair[0].shape == pair[1].shape]
    unlike = [pair for pair in pairs if pair[0].shape != pair[1].shape]
    chosen = alike if rng.random() < 0.5 else unlike
    if not chosen:
        return None
    first, second = rng.choice(chosen)
    text = rng.choice(SAME_FORMS).format(first=first.colour, second=second.colour)
    words = tuple(Word(text.index(f"{thing.colour} object"), thing) for thing in (first, second))
    answer = _yes(first.shape == second.shape)
    return Question("same-small", text, answer, words, None, (first, second))


def ask(rng: random.Random, scene: Scene, kind: str) -> Question | None:
    """A question of that kind about the scene, or None where the scene allows none."""
    if kind == "shape-large":
        return _ask_shape(rng, scene.large(), kind)
    if kind == "shape-small":
        return _ask_shape(rng, scene.small(), kind)
    if kind == "colour-large":
        return _ask_colour(rng, scene)
    if kind == "present-colour":
        return _ask_colour_presence(rng, scene)
    if kind == "present-large":
        return _ask_presence(rng, scene.large(), kind)
    if kind == "present-small":
        return _ask_presence(rng, scene.small(), kind)
    if kind == "same-small":
        return _ask_same(rng, scene)
    raise ValueError(f"unknown kind of question: {kind}")


def answer_words() -> tuple[str, ...]:
    """Every word that can be an answer."""
    return (*COLOURS, *SHAPES, "yes", "no")
