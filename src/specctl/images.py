"""The only door for pixels: a file, once, to an upright, bounded RGB array.

What is decoded is what a viewer shows: turned by EXIF, transparency laid on white, embedded colour
profiles applied, 16 bits scaled to 8, the first frame of an animation. Nothing is ever fetched.
"""

from __future__ import annotations

import hashlib
import io
import math
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image as PILImage
from PIL import ImageCms, ImageFile
from PIL.Image import Transpose

from specctl.errors import InputError
from specctl.image_files import open_image, printable, refusal, shown_name
from specctl.types import Box, ImageFacts

Pixels = npt.NDArray[np.uint8]

MAX_FILE_PIXELS = 100_000_000
"""More pixels than this are refused before anything is decoded."""
MAX_PIXELS = 16_777_216
"""More pixels than this are scaled down: the largest view that any supported model takes."""

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "AVIF", "JPEG2000", "QOI", "BMP", "DIB", "PPM")
_FORMAT_HINT = "whole files of these kinds are read, whatever their names: " + ", ".join(_FORMATS)
_ORIENTATION, _TIFF_BITS, _TIFF_PHOTOMETRIC = 274, 258, 262
_TURNS = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}

# For good, of Pillow's modules only: `catch_warnings` is not safe while other threads decode.
warnings.filterwarnings("ignore", module=r"PIL\.")


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
    with open_image(path) as file:
        decoded = _decode(file, shown_name(path), max_pixels)
    return image_from_pixels(np.asarray(decoded), printable(path))


def looks_photographic(image: Image, most_colours: int = 400) -> bool:
    """Whether it has more colours than a drawing: counted over 64 x 64 pixels, 5 bits a channel."""
    rows = np.linspace(0, image.height - 1, 64).astype(int)
    columns = np.linspace(0, image.width - 1, 64).astype(int)
    sample = image.pixels[rows][:, columns].reshape(-1, 3) >> 3
    return len(np.unique(sample, axis=0)) > most_colours


def save_png(image: Image, path: Path) -> None:
    """Write the pixels to `path` as PNG."""
    try:
        PILImage.fromarray(image.pixels).save(path, format="PNG")
    except OSError as error:
        message = f"{printable(str(path))} cannot be written: {error.strerror or error}"
        raise refusal("image_unwritable", message) from error


def _decode(file: BinaryIO, shown: str, max_pixels: int) -> PILImage.Image:
    try:
        opened = _identify(file)
        if opened is None:
            message = f"{shown} is not an image that can be read"
            raise refusal("not_an_image", message, _FORMAT_HINT)
        with opened:
            _check_size(opened.size, shown)
            _scale_transparent_colour(opened)
            opened.load()
            turn = _TURNS.get(_orientation(opened))
            upright = _bounded(_flat_rgb(opened), max_pixels)
            return upright if turn is None else upright.transpose(turn)
    except InputError:
        raise
    except PILImage.DecompressionBombError as error:
        raise _too_large(shown, "its header promises far too many pixels") from error
    # Pillow's readers raise nearly every built-in exception on damaged files.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        hint = "the file may be truncated: copy or download it again"
        raise refusal("image_corrupt", f"{shown} is damaged: {reason}", hint) from error


def _identify(file: BinaryIO) -> ImageFile.ImageFile | None:
    """The header read. `PILImage.open` tells no bomb's size, and starts programs for some kinds."""
    PILImage.init()
    head = file.read(16)
    for name in _FORMATS:
        factory, accept = PILImage.OPEN.get(name, (None, None))
        file.seek(0)
        try:
            if factory and accept and accept(head) is True:
                return factory(file, "")
        except (SyntaxError, IndexError, TypeError, struct.error):
            continue
    return None


def _check_size(size: tuple[int, int], shown: str) -> None:
    width, height = size
    if width * height > MAX_FILE_PIXELS:
        raise _too_large(shown, f"it has {width}x{height} pixels")


def _too_large(shown: str, what: str) -> InputError:
    limit = f"at most {MAX_FILE_PIXELS // 1_000_000} megapixels are decoded"
    message = f"{shown} is too large: {what}; {limit}"
    return refusal("image_too_large", message, "scale it down first")


def _orientation(opened: PILImage.Image) -> Any:
    try:
        return opened.getexif().get(_ORIENTATION)
    except Exception:  # metadata that is damaged in any way does not spoil the picture
        return None


def _scale_transparent_colour(opened: ImageFile.ImageFile) -> None:
    """PNG names it at the file's depth, but Pillow decodes these depths to 8 bits."""
    colour, depth = opened.info.get("transparency"), opened.tile[0][3] if opened.tile else None
    if colour is not None and depth in ("L;2", "L;4"):
        opened.info["transparency"] = colour * (85 if depth == "L;2" else 17)
    elif colour is not None and depth == "RGB;16B":
        opened.info["transparency"] = tuple(value >> 8 for value in colour)


def _flat_rgb(image: PILImage.Image) -> PILImage.Image:
    """Any mode to RGB: transparency on white, profiles applied, deep greys scaled."""
    alpha = None
    if image.mode[0] in "IF":
        colour = PILImage.fromarray(_eight_bits(image)).convert("RGB")
        if (clear := image.info.get("transparency")) is not None:
            alpha = PILImage.fromarray(np.asarray(image) != clear).convert("L")
    elif image.has_transparency_data:
        layer = image.convert("RGBA")
        colour, alpha = _to_srgb(layer), layer.getchannel("A")
    else:
        colour = _to_srgb(image)
    white = PILImage.new("RGB", colour.size, "white")
    return PILImage.composite(colour, white, alpha) if alpha else colour


def _eight_bits(image: PILImage.Image) -> Pixels:
    """Greys of 16 bits, 32 bits or floats to 8 bits.

    16-bit files keep their full scale. Others have none: values within [0, 1] (floats), [0, 255] or
    [0, 65535] are taken on that scale, anything else from its least to its largest value.
    """
    values = np.nan_to_num(np.asarray(image).astype(np.float32), posinf=0.0, neginf=0.0)
    tags = getattr(image, "tag_v2", {})
    low, high = 0.0, 2.0 ** tags.get(_TIFF_BITS, (16,))[0] - 1
    if image.mode in ("I", "F") and image.format != "PPM":
        least, most = float(values.min()), float(values.max())
        scales = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
        fitting = [scale for scale in scales if least >= 0 and most <= scale]
        low, high = (0.0, fitting[0]) if fitting else (least, max(most, least + 1e-30))
    scaled: Pixels = np.rint((values - low) * (255 / (high - low))).astype(np.uint8)
    return 255 - scaled if tags.get(_TIFF_PHOTOMETRIC) == 0 else scaled


def _to_srgb(image: PILImage.Image) -> PILImage.Image:
    """To RGB through the embedded colour profile where it is of use."""
    plain = image if image.mode in ("L", "CMYK", "LAB") else image.convert("RGB")
    profile = image.info.get("icc_profile")
    try:
        if image.mode == "LAB":
            source: Any = ImageCms.createProfile("LAB")
        elif profile:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            if "sRGB" in (source.profile.profile_description or ""):
                return plain.convert("RGB")
        else:
            return plain.convert("RGB")
        turned = ImageCms.profileToProfile(
            plain, source, ImageCms.createProfile("sRGB"), outputMode="RGB"
        )
    except (ImageCms.PyCMSError, OSError, ValueError):
        turned = None  # a profile that does not fit its image is as good as none
    return turned or plain.convert("RGB")


def _bounded(image: PILImage.Image, max_pixels: int) -> PILImage.Image:
    width, height = image.size
    if width * height <= max_pixels:
        return image
    scale = math.sqrt(max_pixels / (width * height))
    wide, tall = max(1, int(width * scale)), max(1, int(height * scale))
    size = (max(1, min(wide, max_pixels // tall)), max(1, min(tall, max_pixels // wide)))
    return image.resize(size, PILImage.Resampling.LANCZOS, reducing_gap=3.0)
