"""The image loader: every kind of file that turns out wrong elsewhere."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PILImage
from PIL import ImageCms

from specctl.errors import InputError
from specctl.images import MAX_FILE_PIXELS, image_from_pixels, read_image, save_png
from specctl.types import Box

RED = (200, 30, 40)


def scene(width: int = 60, height: int = 40) -> PILImage.Image:
    """White with a red corner top left and a blue one bottom right."""
    picture = PILImage.new("RGB", (width, height), "white")
    picture.paste(RED, (0, 0, width // 3, height // 3))
    picture.paste((20, 30, 210), (width - width // 3, height - height // 3, width, height))
    return picture


def saved(path: Path, picture: PILImage.Image, **options: object) -> str:
    picture.save(path, **options)  # type: ignore[arg-type]
    return str(path)


def refused(path: str, code: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_image(path)
    assert caught.value.code == code
    assert "\n" not in caught.value.message
    return caught.value


@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright_whatever_exif_says(tmp_path: Path, orientation: int) -> None:
    turns = {
        2: PILImage.Transpose.FLIP_LEFT_RIGHT,
        3: PILImage.Transpose.ROTATE_180,
        4: PILImage.Transpose.FLIP_TOP_BOTTOM,
        5: PILImage.Transpose.TRANSPOSE,
        6: PILImage.Transpose.ROTATE_90,
        7: PILImage.Transpose.TRANSVERSE,
        8: PILImage.Transpose.ROTATE_270,
    }
    stored = scene().transpose(turns[orientation]) if orientation in turns else scene()
    exif = PILImage.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "turned.png", stored, exif=exif)
    assert np.array_equal(read_image(path).pixels, np.asarray(scene()))


def with_alpha(mode: str) -> PILImage.Image:
    picture = PILImage.new("RGBA", (8, 8), (255, 0, 0, 0))
    picture.paste((0, 128, 0, 255), (0, 0, 4, 8))
    return picture.convert(mode)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
@pytest.mark.parametrize("kind", ["png", "webp", "tiff"])
def test_transparency_is_white(tmp_path: Path, mode: str, kind: str) -> None:
    options = {"lossless": True} if kind == "webp" else {}
    path = saved(tmp_path / f"clear.{kind}", with_alpha(mode), **options)
    assert tuple(read_image(path).pixels[0, 7]) == (255, 255, 255)
    assert tuple(read_image(path).pixels[0, 0]) != (255, 255, 255)


def test_a_transparent_palette_entry_is_white(tmp_path: Path) -> None:
    picture = PILImage.new("P", (4, 4), 1)
    picture.putpalette([0, 0, 0, *RED])
    path = saved(tmp_path / "palette.png", picture, transparency=1)
    assert tuple(read_image(path).pixels[0, 0]) == (255, 255, 255)


def test_a_transparent_colour_is_white(tmp_path: Path) -> None:
    path = saved(tmp_path / "key.png", PILImage.new("RGB", (4, 4), RED), transparency=RED)
    assert tuple(read_image(path).pixels[0, 0]) == (255, 255, 255)


@pytest.mark.parametrize("kind", ["png", "tiff"])
def test_sixteen_bits_keep_their_levels(tmp_path: Path, kind: str) -> None:
    ramp = np.linspace(0, 65535, 1024).astype(np.uint16)[None].repeat(4, 0)
    path = saved(tmp_path / f"deep.{kind}", PILImage.fromarray(ramp))
    row = read_image(path).pixels[0, :, 0]
    assert len(np.unique(row)) >= 250
    assert row[0] == 0
    assert row[-1] == 255
    assert (np.diff(row.astype(int)) >= 0).all()


@pytest.mark.parametrize(("most", "last"), [(1.0, 255), (255.0, 255), (65535.0, 255), (1e6, 255)])
def test_float_greys_are_taken_on_their_scale(tmp_path: Path, most: float, last: int) -> None:
    values = np.linspace(0, most, 64, dtype=np.float32)[None].repeat(2, 0)
    path = saved(tmp_path / "float.tiff", PILImage.fromarray(values))
    row = read_image(path).pixels[0, :, 0]
    assert (row[0], row[-1]) == (0, last)
    assert len(np.unique(row)) == 64


def test_cmyk_is_neither_inverted_nor_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "print.jpg", scene().convert("CMYK"), quality=95)
    got = read_image(path).pixels.astype(int)
    assert np.abs(got - np.asarray(scene()).astype(int)).mean() < 4


@pytest.mark.parametrize("mode", ["1", "L", "P", "YCbCr", "LAB", "HSV"])
def test_other_modes(tmp_path: Path, mode: str) -> None:
    if mode == "LAB":
        lab = ImageCms.profileToProfile(
            scene(), ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
        )
        assert lab is not None
        path = saved(tmp_path / "x.tiff", lab)
        got = read_image(path).pixels.astype(int)
        assert np.abs(got - np.asarray(scene()).astype(int)).mean() < 4
        return
    if mode == "HSV":
        stored, kind = scene().convert("HSV").convert("RGB"), "png"
    else:
        stored, kind = scene().convert(mode), "tiff"
    got = read_image(saved(tmp_path / f"x.{kind}", stored)).pixels
    assert got.shape == (40, 60, 3)
    assert tuple(got[0, -1]) == (255, 255, 255)


def test_an_embedded_profile_is_applied(tmp_path: Path) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    path = saved(tmp_path / "p.png", scene(), icc_profile=profile.tobytes())
    got = read_image(path).pixels.astype(int)
    assert np.abs(got - np.asarray(scene()).astype(int)).max() <= 2


def test_a_nonsense_profile_is_ignored(tmp_path: Path) -> None:
    path = saved(tmp_path / "p.png", scene(), icc_profile=b"not a profile")
    assert np.array_equal(read_image(path).pixels, np.asarray(scene()))


@pytest.mark.parametrize("kind", ["gif", "webp", "png", "tiff"])
def test_the_first_frame_of_an_animation(tmp_path: Path, kind: str) -> None:
    frames = [PILImage.new("RGB", (16, 16), colour) for colour in ("red", "blue", "green")]
    path = saved(tmp_path / f"moving.{kind}", frames[0], save_all=True, append_images=frames[1:])
    pixel = read_image(path).pixels[8, 8]
    assert pixel[0] > 200
    assert pixel[2] < 60


@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "gif"])
def test_truncated_files_are_damaged(tmp_path: Path, kind: str) -> None:
    path = Path(saved(tmp_path / f"cut.{kind}", noise()))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    error = refused(str(path), "input.image_corrupt")
    assert path.name in error.message


def noise() -> PILImage.Image:
    return PILImage.fromarray(np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8))


def png_header(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"0"))


@pytest.mark.parametrize("side", [12_000, 60_000])
def test_bombs_are_refused_by_their_header(
    tmp_path: Path, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert side * side > MAX_FILE_PIXELS
    monkeypatch.setattr(PILImage.Image, "load", lambda self: pytest.fail("a bomb was decoded"))
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(side, side))
    refused(str(path), "input.image_too_large")


def test_large_images_are_scaled_down(tmp_path: Path) -> None:
    path = saved(tmp_path / "wide.png", scene(400, 200))
    image = read_image(path, max_pixels=20_000)
    assert (image.width, image.height) == (200, 100)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "input.not_an_image"),
        (b"hello", "input.not_an_image"),
        (b"<svg></svg>", "input.not_an_image"),
        (png_header(4, 4), "input.image_corrupt"),
    ],
)
def test_what_is_no_image(tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(content)
    refused(str(path), code)


def test_the_extension_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "really_a_png.jpg.txt"
    scene().save(path, format="PNG")
    assert read_image(str(path)).width == 60


def test_missing_files_name_their_neighbour(tmp_path: Path) -> None:
    saved(tmp_path / "kitchen.png", scene())
    error = refused(str(tmp_path / "kitchn.png"), "input.image_missing")
    assert "kitchen.png" in error.hint


@pytest.mark.parametrize("url", ["https://host/x.png", "file:///x.png", "data:image/png;base64,"])
def test_nothing_is_fetched(url: str) -> None:
    refused(url, "input.image_unreadable")


def test_files_that_are_none(tmp_path: Path) -> None:
    refused(str(tmp_path), "input.image_unreadable")
    os.mkfifo(tmp_path / "pipe")
    refused(str(tmp_path / "pipe"), "input.image_unreadable")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(str(tmp_path / "loop"), "input.image_unreadable")
    refused("a\0b.png", "input.image_unreadable")


@pytest.mark.parametrize("name", ["猫.png", "naïve café.png", "\udcff\udcfe.png", "a\nb.png"])
def test_odd_names(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / name, scene(), format="PNG")
    image = read_image(path)
    assert image.path is not None
    image.path.encode("utf-8")
    with pytest.raises(InputError) as caught:
        read_image(path + ".gone")
    caught.value.message.encode("utf-8")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    scene().save(stream, format="PNG")
    stream.seek(0)
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stream}))
    assert np.array_equal(read_image("-").pixels, np.asarray(scene()))


def test_crops_know_themselves_by_content() -> None:
    pixels = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)
    image = image_from_pixels(pixels, "x.png")
    crop = image.crop(Box(5, 2, 15, 12))
    assert np.array_equal(crop.pixels, pixels[2:12, 5:15])
    assert crop.sha256 == image_from_pixels(pixels[2:12, 5:15]).sha256
    assert crop.sha256 != image_from_pixels(pixels[2:12, 5:15].transpose(1, 0, 2)).sha256
    assert crop.path is None
    with pytest.raises(ValueError, match="read-only"):
        crop.pixels[0, 0, 0] = 1


@pytest.mark.parametrize(
    "box", [Box(0, 0, 0, 5), Box(-1, 0, 5, 5), Box(0, 0, 31, 5), Box(0, 6, 5, 5)]
)
def test_a_box_must_be_inside(box: Box) -> None:
    image = image_from_pixels(np.zeros((20, 30, 3), np.uint8))
    with pytest.raises(ValueError, match="not within"):
        image.crop(box)


def test_png_round_trip(tmp_path: Path) -> None:
    image = image_from_pixels(np.asarray(noise()))
    save_png(image, tmp_path / "crop.png")
    assert read_image(str(tmp_path / "crop.png")).sha256 == image.sha256


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@pytest.mark.parametrize(
    ("depth", "colour_type", "sample", "key"),
    [
        (1, 0, b"\x00", b"\0\0"),
        (2, 0, b"\x55", b"\0\1"),
        (4, 0, b"\x55", b"\0\5"),
        (8, 0, b"\x37", b"\0\x37"),
        (16, 0, b"\x12\x34", b"\x12\x34"),
        (8, 2, b"\x12\x34\x56", b"\0\x12\0\x34\0\x56"),
        (16, 2, b"\x12\x34\x56\x78\x9a\xbc", b"\x12\x34\x56\x78\x9a\xbc"),
    ],
    ids=["gray1", "gray2", "gray4", "gray8", "gray16", "rgb8", "rgb16"],
)
def test_a_transparent_colour_of_any_depth_is_white(
    tmp_path: Path, depth: int, colour_type: int, sample: bytes, key: bytes
) -> None:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, depth, colour_type, 0, 0, 0))
    body = chunk(b"tRNS", key) + chunk(b"IDAT", zlib.compress(b"\0" + sample))
    path = tmp_path / "key.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + body + chunk(b"IEND", b""))
    assert tuple(read_image(str(path)).pixels[0, 0]) == (255, 255, 255)


def tiff(photometric: int, bits: int, data: bytes) -> bytes:
    """One row of two gray pixels."""
    tags = [(256, 2), (257, 1), (258, bits), (259, 1), (262, photometric), (273, 122), (277, 1)]
    tags += [(278, 1), (279, len(data))]
    entries = b"".join(struct.pack("<HHII", tag, 3, 1, value) for tag, value in tags)
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + entries + b"\0" * 4 + data


@pytest.mark.parametrize(
    ("content", "pixels"),
    [
        (tiff(1, 16, struct.pack("<HH", 0, 65535)), (0, 255)),
        (tiff(0, 16, struct.pack("<HH", 0, 65535)), (255, 0)),
        (tiff(1, 12, b"\x00\x0f\xff"), (0, 255)),
        (b"P5 2 1 65535\n" + struct.pack(">HH", 0, 250), (0, 1)),
        (b"P5 2 1 4095\n" + struct.pack(">HH", 0, 4095), (0, 255)),
    ],
    ids=["16-bit", "white-is-zero", "12-bit", "dark-pgm", "12-bit-pgm"],
)
def test_deep_greys_keep_the_scale_of_their_file(
    tmp_path: Path, content: bytes, pixels: tuple[int, int]
) -> None:
    path = tmp_path / "deep"
    path.write_bytes(content)
    assert tuple(read_image(str(path)).pixels[0, :, 0]) == pixels


def matrix_profile(order: str) -> bytes:
    """A display profile whose red, green and blue lights are sRGB's, in another order."""
    lights = {"r": (0.4361, 0.2225, 0.0139), "g": (0.3851, 0.7169, 0.0971)}
    lights["b"] = (0.1431, 0.0606, 0.7141)

    def xyz(values: tuple[float, ...]) -> bytes:
        return b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(v * 65536) for v in values))

    tags = {b"wtpt": xyz((0.9642, 1.0, 0.8249))}
    for name, light in zip("rgb", order, strict=True):
        tags[f"{name}XYZ".encode()] = xyz(lights[light])
        tags[f"{name}TRC".encode()] = b"curv" + bytes(4) + struct.pack(">IH", 1, 563) + b"\0\0"
    tags[b"desc"] = b"desc" + bytes(4) + struct.pack(">I", 5) + b"test\0" + bytes(79)
    table, data, start = b"", b"", 132 + 12 * len(tags)
    for name_, value in tags.items():
        table += name_ + struct.pack(">II", start + len(data), len(value))
        data += value
    head = struct.pack(">I4sI", start + len(data), b"lcms", 0x02400000) + b"mntrRGB XYZ "
    head += bytes(12) + b"acsp" + bytes(28) + struct.pack(">3i", 63190, 65536, 54061)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + data


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_a_profile_of_other_lights_is_applied(tmp_path: Path, mode: str) -> None:
    picture = PILImage.new("RGB", (4, 4), "red").convert(mode)
    path = saved(tmp_path / "lights.png", picture, icc_profile=matrix_profile("gbr"))
    red, green, blue = (int(value) for value in read_image(path).pixels[0, 0])
    assert green > 250
    assert max(red, blue) < 12


def test_a_profile_for_another_mode_is_ignored(tmp_path: Path) -> None:
    picture = PILImage.new("CMYK", (8, 8), (0, 255, 255, 0))
    path = saved(tmp_path / "x.jpg", picture, icc_profile=matrix_profile("rgb"), quality=95)
    assert np.abs(read_image(path).pixels[4, 4].astype(int) - (255, 0, 0)).max() < 8


def test_ycck_jpegs(tmp_path: Path) -> None:
    """Pillow writes none, so the Adobe marker of a CMYK file is made to say YCCK."""
    # Stored inverted: Y 150, Cb and Cr 127, K 255; so no black ink and 150 of each other ink.
    path = Path(saved(tmp_path / "x.jpg", PILImage.new("CMYK", (8, 8), (105, 128, 128, 0))))
    content = path.read_bytes()
    at = content.index(b"Adobe") + 11
    path.write_bytes(content[:at] + b"\2" + content[at + 1 :])
    pixel = read_image(str(path)).pixels[4, 4].astype(int)
    assert np.abs(pixel - 105).max() < 4


@pytest.mark.parametrize("kind", ["EPS", "PDF", "ICNS"])
def test_only_plain_raster_formats_are_opened(tmp_path: Path, kind: str) -> None:
    """Pillow's EPS reader starts Ghostscript on the file."""
    path = saved(tmp_path / "x.png", PILImage.new("RGB", (16, 16)), format=kind)
    refused(path, "input.not_an_image")


def test_a_bomb_names_its_size_and_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(60_000, 60_000))
    message = refused(str(path), "input.image_too_large").message
    assert "bomb.png" in message
    assert "60000x60000" in message
    assert "100 megapixels" in message


@pytest.mark.parametrize("size", [(3000, 1), (1, 3000), (3000, 2)])
def test_thin_images_fit_the_bound_too(tmp_path: Path, size: tuple[int, int]) -> None:
    image = read_image(saved(tmp_path / "thin.png", PILImage.new("L", size)), max_pixels=100)
    assert 0 < image.width * image.height <= 100


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["jpg", "png", "gif", "webp", "tiff", "avif", "bmp"])
def test_damage_anywhere_is_an_input_error(tmp_path: Path, kind: str) -> None:
    if kind == "avif" and ".avif" not in PILImage.registered_extensions():
        pytest.skip("this Pillow has no AVIF")
    path = Path(saved(tmp_path / f"x.{kind}", noise()))
    content, random = path.read_bytes(), np.random.default_rng(7)
    for _ in range(150):
        damaged = np.frombuffer(content, np.uint8).copy()
        at = random.integers(0, min(len(damaged), int(random.choice([64, 512, 10**9]))), 4)
        damaged[at] = random.integers(0, 256, 4)
        path.write_bytes(damaged.tobytes())
        try:
            read_image(str(path))
        except InputError as error:
            assert error.code.startswith("input.")  # noqa: PT017


def test_pillows_warnings_stay_inside(tmp_path: Path) -> None:
    picture = noise().quantize(8)
    path = saved(tmp_path / "x.png", picture, transparency=bytes(range(8)))
    jpeg = Path(
        saved(tmp_path / "x.jpg", noise(), exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\xff" * 40)
    )
    code = (
        "import sys; from specctl.images import read_image; [read_image(p) for p in sys.argv[1:]]"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, path, str(jpeg)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["a\nb.png", "a\x1b[31mb.png", "\u202egnp.exe", "\udcff.png"])
def test_messages_show_odd_names_safely(tmp_path: Path, name: str) -> None:
    assert refused(str(tmp_path / name), "input.image_missing").message.isprintable()


def test_a_link_to_nothing_does_not_suggest_itself(tmp_path: Path) -> None:
    (tmp_path / "dangling.png").symlink_to(tmp_path / "gone.png")
    assert "link" in refused(str(tmp_path / "dangling.png"), "input.image_missing").hint


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    image = image_from_pixels(np.zeros((2, 2, 3), np.uint8))
    with pytest.raises(InputError, match="cannot be written"):
        save_png(image, tmp_path / "no" / "x.png")


def test_mpo_gives_the_first_picture(tmp_path: Path) -> None:
    others = [PILImage.new("RGB", (16, 16), "blue")]
    path = saved(
        tmp_path / "x.mpo",
        PILImage.new("RGB", (16, 16), "red"),
        save_all=True,
        append_images=others,
    )
    assert read_image(path).pixels[8, 8, 0] > 200


def test_no_terminal_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    refused("-", "input.image_missing")
