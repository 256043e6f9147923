"""The drawn world: square canvases with a few flat shapes on a 4 x 4 grid of cells.

All lengths are in *frame units*: the canvas is 448 units wide whatever its size in pixels, a cell
is 112 units and one of its sixteen sub-cells 28 units. A large object nearly fills its cell. A
small one stays inside one sub-cell, so that a zoom into its cell shows it in one token of the view,
just as the overview shows a large object in one token.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from PIL import Image, ImageDraw

FRAME = 448
GRID = 4
CELL = FRAME // GRID
SUBCELL = CELL // GRID
CANVAS_SIZES = (448, 672, 896, 1120, 1344, 1568, 1792, 2016)

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (222, 30, 30),
    "green": (20, 150, 50),
    "blue": (40, 60, 225),
    "yellow": (245, 210, 0),
    "orange": (250, 125, 0),
    "purple": (150, 40, 185),
    "black": (20, 20, 20),
    "cyan": (0, 190, 215),
}
BACKGROUND = (255, 255, 255)

LARGE_REACH = (34.0, 48.0)
SMALL_SLACK = 3.0
"""How far a small object lies from the middle of its sub-cell, at most."""
SMALL_AREA = (44.0, 60.0)
"""Small objects have equal areas whatever their shape: a dot's weight says little about it."""


def _regular_star(points: int, inner: float) -> tuple[tuple[float, float], ...]:
    corners = []
    for step in range(2 * points):
        radius = 1.0 if step % 2 == 0 else inner
        angle = math.pi * step / points - math.pi / 2
        corners.append((radius * math.cos(angle), radius * math.sin(angle)))
    return tuple(corners)


_ARM = 0.36
OUTLINES: dict[str, tuple[tuple[float, float], ...]] = {
    "circle": (),
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((0, -0.95), (1, 0.95), (-1, 0.95)),
    "star": _regular_star(5, 0.55),
    "cross": (
        *((-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM)),
        *((_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM)),
    ),
    "diamond": ((0, -1), (1, 0), (0, 1), (-1, 0)),
}
"""Corners of each shape at reach 1; a circle has none."""

SHAPES = tuple(OUTLINES)


def _polygon_area(corners: tuple[tuple[float, float], ...]) -> float:
    if not corners:
        return math.pi
    following = (*corners[1:], corners[0])
    return (
        abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in zip(corners, following, strict=True)))
        / 2
    )


UNIT_AREA = {shape: _polygon_area(corners) for shape, corners in OUTLINES.items()}


@dataclass(frozen=True)
class Thing:
    """One object: what it is, its cell (row-major), its centre and its reach in frame units."""

    shape: str
    colour: str
    large: bool
    cell: int
    x: float
    y: float
    reach: float

    @property
    def crop_token(self) -> int:
        """The object's sub-cell in its cell: the view token that shows it after a zoom."""
        left, top = CELL * (self.cell % GRID), CELL * (self.cell // GRID)
        return int((self.y - top) // SUBCELL) * GRID + int((self.x - left) // SUBCELL)


@dataclass(frozen=True)
class Scene:
    """A white canvas: its width in pixels and its objects; no two share a colour."""

    size: int
    things: tuple[Thing, ...]

    def small(self) -> tuple[Thing, ...]:
        return tuple(thing for thing in self.things if not thing.large)

    def large(self) -> tuple[Thing, ...]:
        return tuple(thing for thing in self.things if thing.large)

    def absent_colours(self) -> tuple[str, ...]:
        present = {thing.colour for thing in self.things}
        return tuple(colour for colour in COLOURS if colour not in present)


def _place(rng: random.Random, shape: str, colour: str, large: bool, cell: int) -> Thing:
    left, top = CELL * (cell % GRID), CELL * (cell // GRID)
    if large:
        reach, span = rng.uniform(*LARGE_REACH), CELL
    else:
        reach, span = math.sqrt(rng.uniform(*SMALL_AREA) / UNIT_AREA[shape]), SUBCELL
        left += SUBCELL * rng.randrange(GRID)
        top += SUBCELL * rng.randrange(GRID)
    slack = span / 2 - reach - 1 if large else SMALL_SLACK
    x = left + span / 2 + rng.uniform(-slack, slack)
    y = top + span / 2 + rng.uniform(-slack, slack)
    return Thing(shape, colour, large, cell, x, y, reach)


def draw_scene(
    rng: random.Random, fewest: int = 2, most: int = 5, sizes: tuple[int, ...] = CANVAS_SIZES
) -> Scene:
    """A random scene. In half of those with two small objects, two of them share their shape."""
    count = rng.randint(fewest, most)
    cells = rng.sample(range(GRID * GRID), count)
    colours = rng.sample(list(COLOURS), count)
    larges = [rng.random() < 0.5 for _ in range(count)]
    shapes = [rng.choice(SHAPES) for _ in range(count)]
    small = [index for index in range(count) if not larges[index]]
    if len(small) >= 2 and rng.random() < 0.5:
        first, second = rng.sample(small, 2)
        shapes[second] = shapes[first]
    things = tuple(
        _place(rng, *drawn) for drawn in zip(shapes, colours, larges, cells, strict=True)
    )
    return Scene(rng.choice(sizes), things)


def _stamp(thing: Thing, scale: float) -> tuple[Image.Image, tuple[int, int]]:
    """The anti-aliased mask of one object and its corner on the canvas."""
    reach = thing.reach * scale
    fine = 4 if reach < 24 else 2 if reach < 90 else 1
    left, top = math.floor(thing.x * scale - reach) - 1, math.floor(thing.y * scale - reach) - 1
    side = math.ceil(2 * reach) + 3
    mask = Image.new("L", (side * fine, side * fine), 0)
    pen = ImageDraw.Draw(mask)
    x, y, far = (
        (thing.x * scale - left) * fine,
        (thing.y * scale - top) * fine,
        reach * fine,
    )
    corners = OUTLINES[thing.shape]
    if corners:
        pen.polygon([(x + far * cx - 0.5, y + far * cy - 0.5) for cx, cy in corners], fill=255)
    else:
        pen.ellipse((x - far, y - far, x + far - 1, y + far - 1), fill=255)
    return (mask.reduce(fine) if fine > 1 else mask), (left, top)


def render(scene: Scene) -> Image.Image:
    """The canvas as an RGB picture."""
    canvas = Image.new("RGB", (scene.size, scene.size), BACKGROUND)
    for thing in scene.things:
        mask, corner = _stamp(thing, scene.size / FRAME)
        canvas.paste(COLOURS[thing.colour], corner, mask)
    return canvas


def cell_box(cell: int, extent: int) -> tuple[int, int, int, int]:
    """The box of a cell in a square frame of that extent, as x1, y1, x2, y2."""
    step = extent // GRID
    column, row = cell % GRID, cell // GRID
    return step * column, step * row, step * (column + 1), step * (row + 1)
