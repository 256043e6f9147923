"""Image files of a folder, in natural order, by name and header.

Hidden files, system litter and everything that is neither named nor begun like an image is passed
over. Links to files are followed, links to folders are not, so that no scan runs in circles. Only
the names of the folders on the way down are held.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from specctl.data.rows import Row, RowMaker
from specctl.data.sniff import has_image_header, has_image_name, read_header
from specctl.types import Failure

LITTER = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini", "@eadir", "__macosx"})


@dataclass(frozen=True, slots=True)
class Found:
    """An image file by its path relative to the folder, or a subfolder that cannot be read."""

    relative: str
    size: int
    error: str | None = None


def find_images(folder: str, recursive: bool, below: str = "") -> Iterator[Found]:
    """Everything in `folder` that is to be a row, folders and files in one natural order."""
    try:
        with os.scandir(os.path.join(folder, below)) as entries:
            ordered = sorted(entries, key=lambda entry: natural_key(entry.name))
    except OSError as error:
        yield Found(below, 0, error.strerror or "cannot be read")
        return
    for entry in ordered:
        relative = os.path.join(below, entry.name)
        if entry.name.startswith(".") or entry.name.lower() in LITTER:
            continue
        if entry.is_dir(follow_symlinks=False):
            if recursive:
                yield from find_images(folder, recursive, relative)
        elif (size := _image_size(entry)) is not None:
            yield Found(relative, size)


def folder_rows(folder: str, found: Iterator[Found], maker: RowMaker) -> Iterator[Row]:
    """One row per image file; the id is its path relative to the folder."""
    for item in found:
        row_id = item.relative.replace(os.sep, "/")
        place = os.path.join(folder, item.relative)
        if item.error is not None:
            failure = Failure("input.unreadable_folder", item.error)
            yield maker.broken(failure, f"{row_id}/", place)
        else:
            yield maker.row({"image": item.relative}, row_id, place)


def has_subfolders(folder: str) -> bool:
    """Is there a subfolder that a recursive scan would enter?"""
    with os.scandir(folder) as entries:
        return any(
            entry.is_dir(follow_symlinks=False)
            and not entry.name.startswith(".")
            and entry.name.lower() not in LITTER
            for entry in entries
        )


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Sorts `2.png` before `10.png`, whatever the case; the name itself breaks ties."""
    parts = re.split(r"([0-9]+)", name.casefold())
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], name


def _image_size(entry: os.DirEntry[str]) -> int | None:
    """The size of an image file, None for anything else.

    A link to nowhere that is named like an image counts: its row says what is missing.
    """
    named = has_image_name(entry.name)
    try:
        status = entry.stat()
    except OSError as error:
        is_loop = error.errno == errno.ELOOP
        return 0 if named and not is_loop else None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_size if named or has_image_header(read_header(entry.path)) else None
