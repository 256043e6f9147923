"""From the name of an image to its bytes: what is no ordinary local file gets one clear line.

Knows nothing of pixels.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from specctl.errors import InputError

STDIN = "-"
_MAX_STDIN_BYTES = 1 << 30
_URL = re.compile(r"[a-z][a-z0-9+.-]+://|file:|data:", re.IGNORECASE)
_UNSAFE = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def open_image(path: str) -> BinaryIO:
    """The bytes of the file at `path`, or of standard input for "-"."""
    return _standard_input() if path == STDIN else _opened(path, shown_name(path))


def shown_name(path: str) -> str:
    """What messages call it."""
    return "standard input" if path == STDIN else printable(path)


def printable(path: str) -> str:
    """`path` on one line for any stream: controls and bytes that are no text become escapes."""
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], path)


def refusal(code: str, message: str, hint: str = "") -> InputError:
    """An `InputError` about an image."""
    return InputError(message, code=f"input.{code}", hint=hint)


def _opened(path: str, shown: str) -> BinaryIO:
    if _URL.match(path):
        hint = "download the image and give its path"
        raise refusal("image_unreadable", f"{shown[:80]}: only local files are read", hint)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder, not an image" if stat.S_ISDIR(mode) else "not a regular file"
            raise refusal("image_unreadable", f"{shown} is {kind}")
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise refusal("image_missing", f"there is no file {shown}", _near(path)) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refusal("image_unreadable", f"{shown} cannot be read: {reason}") from error


def _near(path: str) -> str:
    """A hint that names the most similar file beside the missing one."""
    wanted = Path(path)
    if wanted.is_symlink():
        return "it is a symbolic link to nothing"
    try:
        names = {name.lower(): name for name in sorted(os.listdir(wanted.parent))}
    except OSError:
        return f"there is no folder {printable(str(wanted.parent))} either"
    found = difflib.get_close_matches(wanted.name.lower(), names, n=1)
    return f"did you mean {printable(str(wanted.with_name(names[found[0]])))}?" if found else ""


def _standard_input() -> BinaryIO:
    if sys.stdin is None or sys.stdin.buffer.isatty():
        hint = 'pipe one in: specctl run - "..." < photo.jpg'
        raise refusal("image_missing", "there is no image on standard input", hint)
    return io.BytesIO(sys.stdin.buffer.read(_MAX_STDIN_BYTES))
