"""The only door for pixels: a file, once, to an upright, bounded RGB array.

What is decoded is what a viewer shows: turned by EXIF, transparency laid on white, embedded colour
profiles applied, 16 bits scaled to 8, the first frame of an animation. Nothing is ever fetched.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import math
import os
import stat
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image as PILImage
from PIL import ImageCms, ImageOps, UnidentifiedImageError

from specctl.errors import InputError
from specctl.types import Box, ImageFacts

Pixels = npt.NDArray[np.uint8]

MAX_FILE_PIXELS = 100_000_000
"""More pixels than this are refused before anything is decoded."""
MAX_PIXELS = 16_777_216
"""More pixels than this are scaled down: the largest view that any supported model takes."""

STDIN = "-"
_WHITE = (255, 255, 255, 255)
_GREYS_16 = ("I;16", "I;16L", "I;16B", "I;16N")


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """Upright RGB pixels, `[height, width, 3]` uint8, read-only, with their identity."""

    pixels: Pixels
    sha256: str
    path: str | None = None

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def facts(self) -> ImageFacts:
        return ImageFacts(self.path, self.width, self.height, self.sha256)

    def crop(self, box: Box) -> Image:
        """The pixels inside `box`; one that is empty or not within the image is a `ValueError`."""
        if not (0 <= box.left < box.right <= self.width):
            raise ValueError(f"{box} is not within {self.width} pixels of width")
        if not (0 <= box.top < box.bottom <= self.height):
            raise ValueError(f"{box} is not within {self.height} pixels of height")
        return image_from_pixels(self.pixels[box.top : box.bottom, box.left : box.right])


def image_from_pixels(pixels: Pixels, path: str | None = None) -> Image:
    """An image of its own from `[height, width, 3]` uint8 pixels, known by size and content."""
    own = np.array(pixels, order="C", copy=True)
    own.setflags(write=False)
    digest = hashlib.sha256(f"{own.shape[0]}x{own.shape[1]}:".encode())
    digest.update(own.data)
    return Image(own, digest.hexdigest(), path)


def read_image(path: str, *, max_pixels: int = MAX_PIXELS) -> Image:
    """Decode the file at `path`, or standard input's bytes for "-".

    Raises `InputError` with code `input.image_missing`, `input.image_unreadable` (permissions, not
    a regular file, a URL), `input.not_an_image`, `input.image_too_large` or `input.image_corrupt`.
    """
    shown = "standard input" if path == STDIN else printable(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path == STDIN:
            decoded = _decode(io.BytesIO(sys.stdin.buffer.read()), shown, max_pixels)
        else:
            with _open(path, shown) as file:
                decoded = _decode(file, shown, max_pixels)
    return image_from_pixels(np.asarray(decoded), printable(path))


def looks_photographic(image: Image, most_colours: int = 400) -> bool:
    """Whether it has more colours than a drawing: counted over 64 x 64 pixels, 5 bits a channel."""
    rows = np.linspace(0, image.height - 1, 64).astype(int)
    columns = np.linspace(0, image.width - 1, 64).astype(int)
    sample = image.pixels[rows][:, columns].reshape(-1, 3) >> 3
    return len(np.unique(sample, axis=0)) > most_colours


def save_png(image: Image, path: Path) -> None:
    """Write the pixels to `path` as PNG."""
    PILImage.fromarray(image.pixels).save(path, format="PNG")


def printable(path: str) -> str:
    """`path` as text that every stream can print: bytes that are no text become escapes."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _open(path: str, shown: str) -> BinaryIO:
    if path.startswith(("http://", "https://", "file://", "data:")):
        raise InputError(
            f"{shown}: only local files are read",
            code="input.image_unreadable",
            hint="download the image and give its path",
        )
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise InputError(f"{shown} is {kind}, not an image", code="input.image_unreadable")
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise InputError(
            f"there is no file {shown}", code="input.image_missing", hint=_near(path)
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{shown} cannot be read: {reason}", code="input.image_unreadable"
        ) from error


def _near(path: str) -> str:
    """A hint that names the most similar file beside the missing one."""
    wanted = Path(path)
    try:
        names = os.listdir(wanted.parent)
    except OSError:
        return f"there is no folder {printable(str(wanted.parent))} either"
    found = difflib.get_close_matches(wanted.name, names, n=1)
    return f"did you mean {printable(str(wanted.with_name(found[0])))}?" if found else ""


def _decode(file: BinaryIO, shown: str, max_pixels: int) -> PILImage.Image:
    try:
        with PILImage.open(file) as opened:
            _check_size(opened, shown)
            opened.load()
            return _bounded(_flat_rgb(ImageOps.exif_transpose(opened)), max_pixels)
    except PILImage.DecompressionBombError as error:
        raise _too_large(shown, "its header promises far too many pixels") from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{shown} is not an image that can be read",
            code="input.not_an_image",
            hint="PNG, JPEG, WebP, GIF, TIFF and BMP are read, whatever the file is called",
        ) from error
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError, ArithmeticError) as error:
        raise InputError(
            f"{shown} is damaged: {str(error) or type(error).__name__}",
            code="input.image_corrupt",
            hint="the file may be truncated: copy or download it again",
        ) from error


def _check_size(opened: PILImage.Image, shown: str) -> None:
    width, height = opened.size
    if width < 1 or height < 1:
        raise InputError(f"{shown} has no pixels", code="input.image_corrupt")
    if width * height > MAX_FILE_PIXELS:
        raise _too_large(shown, f"it has {width}x{height} pixels")


def _too_large(shown: str, what: str) -> InputError:
    return InputError(
        f"{shown} is too large: {what}",
        code="input.image_too_large",
        hint=f"at most {MAX_FILE_PIXELS // 1_000_000} megapixels are decoded: scale it down first",
    )


def _flat_rgb(image: PILImage.Image) -> PILImage.Image:
    """Any mode to RGB: transparency on white, profiles applied, deep greys scaled."""
    if image.mode in _GREYS_16 or image.mode in ("I", "F"):
        return PILImage.fromarray(_eight_bits(image)).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        return PILImage.alpha_composite(PILImage.new("RGBA", layer.size, _WHITE), layer).convert(
            "RGB"
        )
    return _to_srgb(image)


def _eight_bits(image: PILImage.Image) -> Pixels:
    """Greys of 16 bits, 32 bits or floats to 8 bits.

    16-bit files keep their full scale. Others have none: values within [0, 1] (floats), [0, 255] or
    [0, 65535] are taken on that scale, anything else from its least to its largest value.
    """
    values = np.nan_to_num(np.asarray(image, dtype=np.float64), posinf=0.0, neginf=0.0)
    low, high = 0.0, 65535.0
    if image.mode not in _GREYS_16:
        least, most = float(values.min()), float(values.max())
        scales = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
        fitting = [scale for scale in scales if least >= 0 and most <= scale]
        low, high = (0.0, fitting[0]) if fitting else (least, most)
    spread = max(high - low, np.finfo(np.float64).tiny)
    scaled: Pixels = np.rint((values - low) / spread * 255).astype(np.uint8)
    return scaled


def _to_srgb(image: PILImage.Image) -> PILImage.Image:
    """To RGB through the embedded colour profile where it is of use."""
    profile = image.info.get("icc_profile")
    if image.mode == "LAB":
        source: Any = ImageCms.createProfile("LAB")
    elif profile and image.mode in ("RGB", "CMYK", "L"):
        source = io.BytesIO(profile)
    else:
        return image.convert("RGB")
    try:
        turned = ImageCms.profileToProfile(
            image, source, ImageCms.createProfile("sRGB"), outputMode="RGB"
        )
    except (ImageCms.PyCMSError, OSError, ValueError):
        turned = None  # a profile that does not fit its image is as good as none
    return turned or image.convert("RGB")


def _bounded(image: PILImage.Image, max_pixels: int) -> PILImage.Image:
    width, height = image.size
    if width * height <= max_pixels:
        return image
    scale = math.sqrt(max_pixels / (width * height))
    size = (max(1, int(width * scale)), max(1, int(height * scale)))
    return image.resize(size, PILImage.Resampling.LANCZOS, reducing_gap=3.0)
