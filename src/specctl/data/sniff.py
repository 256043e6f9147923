"""Is this an image file? By its first bytes and by its name, without decoding anything."""

from __future__ import annotations

import os

IMAGE_EXTENSIONS = (
    *(".apng", ".avif", ".bmp", ".dib", ".gif", ".heic", ".heif", ".j2k", ".jfif", ".jp2", ".jpe"),
    *(".jpeg", ".jpg", ".jxl", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".qoi", ".tif", ".tiff"),
    ".webp",
)
_MAGICS = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"II*\0",
    b"MM\0*",
    b"II+\0",
    b"MM\0+",
    b"qoif",
    b"\0\0\0\x0cjP  ",
    b"\0\0\0\x0cJXL ",
    b"\xff\x4f\xff\x51",
)
_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"heim", b"hevc", b"mif1", b"msf1")
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
HEADER_BYTES = 32


def has_image_name(name: str) -> bool:
    """Does the name end as those of image files do?"""
    return os.path.splitext(name)[1].lower() in IMAGE_EXTENSIONS


def has_image_header(head: bytes) -> bool:
    """Do these first bytes begin an image?"""
    if head.startswith(_MAGICS):
        return True
    if head[:4] == b"RIFF":
        return head[8:12] == b"WEBP"
    if head[4:8] == b"ftyp":
        return head[8:12] in _BRANDS
    if head[:2] == b"BM":
        return int.from_bytes(head[14:18], "little") in _BMP_HEADERS
    is_netpbm = head[:1] == b"P" and head[1:2] in b"123456" and head[2:3] in b"\n\r\t "
    return len(head) > 3 and is_netpbm and (head[3:4].isdigit() or head[3:4] == b"#")


def read_header(path: str) -> bytes:
    """The first bytes of a file, none where it cannot be read."""
    try:
        # Never wait for a pipe that took the file's place since it was looked at.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return b""
    try:
        return os.read(descriptor, HEADER_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
