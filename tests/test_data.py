"""Inputs: every row of every source, whatever is wrong with it, is a query or a named failure."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specctl.data import Row, count_rows, input_fingerprint, read_rows
from specctl.data import sniff as sniffing
from specctl.data.folder import natural_key
from specctl.data.seen import START_SLOTS, SeenIds
from specctl.errors import InputError, UsageError
from specctl.types import Outcome

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + bytes(30)
BOMB = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\x7f\xff\xff\xff" * 2 + bytes(9)
JPEG = b"\xff\xd8\xff\xe0" + bytes(30)


def rows_of(source: Any, stdin: bytes = b"", **options: Any) -> list[Row]:
    return list(read_rows(str(source), stdin=io.BytesIO(stdin), **options))


def lines(*objects: Any) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in objects)


def codes(rows: list[Row]) -> list[str | None]:
    return [row.failure and row.failure.code for row in rows]


def table(tmp_path: Path, content: bytes | str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# Folders


def awkward_folder(root: Path) -> list[str]:
    """A folder of everything that goes wrong; the ids of its image files in order."""
    contents: dict[str | bytes, bytes] = {
        "1.png": PNG, "2.png": PNG, "10.png": PNG, "UPPER.JPG": JPEG, "bomb.png": BOMB,
        "cut.jpg": JPEG[:5], "empty.png": b"", "no_extension": PNG, "photo.txt": JPEG,
        "text.png": b"hello", "jpeg.png": JPEG, "schön 猫.png": PNG, b"bad\xff.png": PNG,
        "new\nline.png": PNG, " space.png": PNG, "web.dat": b"RIFF\0\0\0\0WEBPVP8 ",
        ".hidden.png": PNG, "._1.png": b"\0\5\x16\7", ".DS_Store": b"x", "Thumbs.db": b"\xd0\xcf",
        "desktop.ini": b"x", "notes.md": b"BM is a text", "empty": b"",
        "sound.wav": b"RIFF1234WAVE", "a.json": b"{}",
    }  # fmt: skip
    for name, content in contents.items():
        with open(os.path.join(os.fsencode(root), os.fsencode(name)), "wb") as stream:
            stream.write(content)
    (root / "dir.png").mkdir()
    (root / "dir.png" / "in.png").write_bytes(PNG)
    (root / ".git").mkdir()
    (root / ".git" / "g.png").write_bytes(PNG)
    os.mkfifo(root / "pipe.png")
    (root / "linked.png").symlink_to(root / "1.png")
    (root / "nowhere.png").symlink_to(root / "missing.png")
    (root / "loop.png").symlink_to(root / "loop.png")
    (root / "circle").symlink_to(root)
    return [
        "1.png", "2.png", "10.png", " space.png", "bad\udcff.png", "bomb.png", "cut.jpg",
        "empty.png", "jpeg.png", "linked.png", "new\nline.png", "no_extension", "nowhere.png",
        "photo.txt", "schön 猫.png", "text.png", "UPPER.JPG", "web.dat",
    ]  # fmt: skip


def test_an_awkward_folder_gives_one_row_per_image_file(tmp_path: Path) -> None:
    expected = awkward_folder(tmp_path)
    rows = rows_of(tmp_path, question="What?")
    assert [row.id for row in rows] == expected
    assert [row.index for row in rows] == list(range(len(expected)))
    assert codes(rows) == [None] * len(expected)
    assert all(os.path.lexists(row.asked.image) for row in rows)
    assert {row.asked.question for row in rows} == {"What?"}
    assert count_rows(str(tmp_path)) == len(expected)


def test_recursive_takes_subfolders_in_place_and_runs_in_no_circle(tmp_path: Path) -> None:
    expected = awkward_folder(tmp_path)
    ids = [row.id for row in rows_of(tmp_path, question="?", recursive=True)]
    expected.insert(expected.index("empty.png"), "dir.png/in.png")
    assert ids == expected


def test_only_subfolders_hints_at_recursive(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no image") as caught:
        rows_of(tmp_path, question="?")
    assert "--recursive" not in caught.value.hint
    (tmp_path / "sub").mkdir()
    with pytest.raises(InputError) as caught:
        rows_of(tmp_path, question="?")
    assert "--recursive" in caught.value.hint
    with pytest.raises(UsageError, match="question"):
        rows_of(tmp_path)


def test_a_subfolder_that_cannot_be_read_is_a_failed_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    rows = rows_of(tmp_path, question="?", recursive=True)
    assert [row.id for row in rows] == ["a.png", "locked/"]
    assert codes(rows) == [None, "input.unreadable_folder"]


def test_natural_order_and_headers() -> None:
    names = ["a10.png", "A2.png", "a1b10.png", "a1b9.png", "b.png"]
    assert sorted(names, key=natural_key) == ["a1b9.png", "a1b10.png", "A2.png", "a10.png", "b.png"]
    assert sniffing.has_image_header(b"P6\n3 4\n255\n")
    assert sniffing.has_image_header(b"\0\0\0\x20ftypavif")
    assert not any(map(sniffing.has_image_header, [b"", b"P", b"PK\3\4", b"\0\0\0\x20ftypisom"]))


# JSON lines


def test_jsonl_rows_with_everything(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + lines(
        {
            "image": "a.png",
            "question": "Q?",
            "id": 7,
            "options": ["x", 2],
            "answer": 2,
            "kind": "k",
        },
        {"image": "/abs.png", "options": {"B": "no", "a": "yes"}, "answer": None},
    ).replace(b"\n", b"\r\n\r\n   \n")
    first, second = rows_of(table(tmp_path, content, "q.jsonl"), question="D?", options=("o",))
    assert first.query is not None
    assert first.query.image == str(tmp_path / "a.png")
    assert (first.id, first.asked.options, first.asked.reference) == ("7", ("x", "2"), "2")
    assert first.extra == {"kind": "k"}
    assert (second.id, second.asked.image, second.asked.question) == (
        "row-000004",
        "/abs.png",
        "D?",
    )
    assert (second.asked.options, second.asked.reference) == (("yes", "no"), None)


BAD_LINES = {
    b"{oops": "input.invalid_json",
    b"[" * 100_000: "input.invalid_json",
    b'{"image": ' + b"9" * 5000 + b"}": "input.invalid_json",
    b'{"image": "\xff"}': "input.encoding",
    b"[1]": "input.wrong_type",
    b"null": "input.wrong_type",
    b"{}": "input.missing_field",
    b'{"image": "a", "question": " "}': "input.missing_field",
    b'{"image": 3, "question": "q"}': "input.wrong_type",
    b'{"image": "a\\u0000", "question": "q"}': "input.bad_path",
    b'{"image": "\\ud800", "question": "q"}': "input.bad_path",
    b'{"image": "' + b"A" * 9000 + b'", "question": "q"}': "input.bad_path",
    b'{"image": "a", "question": ["q"]}': "input.wrong_type",
    b'{"image": "a", "question": "\\ud800"}': "input.encoding",
    b'{"image": "a", "question": "q", "id": 1.5}': "input.wrong_type",
    b'{"image": "a", "question": "q", "id": "same"}': "input.duplicate_id",
    b'{"image": "a", "question": "q", "answer": true}': "input.wrong_type",
    b'{"image": "a", "question": "q", "options": "yes|no"}': "input.wrong_type",
    b'{"image": "a", "question": "q", "options": ["x", null, "y"]}': "input.bad_options",
    b'{"image": "a", "question": "q", "options": {"A": "x", "C": "y"}}': "input.bad_options",
    b'{"image": "a", "question": "q", "options": ' + str([1] * 27).encode() + b"}":
        "input.bad_options",
}  # fmt: skip


def test_a_bad_line_is_a_failed_row_and_the_others_are_not() -> None:
    good = lines({"image": "a", "question": "q", "id": "same"})
    stdin = (
        good + b"".join(line + b"\n" for line in BAD_LINES) + lines({"image": "b", "question": "q"})
    )
    rows = rows_of("-", stdin)
    assert codes(rows) == [None, *BAD_LINES.values(), None]
    assert len({row.id for row in rows}) == len(rows)
    for number, row in enumerate(rows, start=1):
        assert row.place == f"stdin:{number}"
        if row.failure:
            assert row.failure.message.startswith(f"stdin:{number}: ")
            assert row.query is None
            assert row.failed().outcome is Outcome.FAILED


def test_ids_stay_unique() -> None:
    named = {"image": "a", "question": "q", "id": "row-000002"}
    rows = rows_of("-", lines(named, {"image": "b", "question": "q"}, named))
    assert [row.id for row in rows] == ["row-000002", "row-000002-2", "row-000003"]
    assert codes(rows) == [None, None, "input.duplicate_id"]


def test_an_image_named_dash_is_not_standard_input() -> None:
    assert rows_of("-", lines({"image": "-", "question": "q"}))[0].asked.image == "./-"


def test_a_line_too_long_is_skipped_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specctl.data.jsonl.MAX_LINE_BYTES", 60)
    good = {"image": "a", "question": "q"}
    rows = rows_of("-", lines({"image": "x" * 300}, good, {"image": "x" * 46}, good))
    assert codes(rows) == ["input.too_large", None, "input.missing_field", None]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.dictionaries(
    st.sampled_from(["image", "question", "id", "options", "answer", "x"]), JSON
)
LINES = st.lists(FIELDS.map(lambda f: json.dumps(f).encode()) | st.binary(max_size=12), max_size=6)


@settings(max_examples=150, deadline=None)
@given(LINES)
def test_any_json_lines_give_one_row_each(items: list[bytes]) -> None:
    expected = [
        i for i in b"\n".join(items).split(b"\n") if i.removeprefix(b"\xef\xbb\xbf").strip()
    ]
    try:
        rows = rows_of("-", b"\n".join(items), question="q")
    except InputError:
        rows = []
        expected = [] if b"".join(items).lstrip()[:2] in (b"\xff\xfe", b"\xfe\xff") else expected
    assert len(rows) == len(expected)
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.query or (row.failure and row.failure.code[:6] == "input.") for row in rows)


# Tables


@pytest.mark.parametrize(("separator", "name"), [(",", "t.csv"), (";", "t.csv"), ("\t", "t.tsv")])
def test_tables_with_options_as_columns(tmp_path: Path, separator: str, name: str) -> None:
    text = (
        "Image,Question,A,B,C,answer,kind\r\na.png,Q?,x,y,,B,k\r\n\r\n,,,,,,\r\nb.png,R?,,,,,\r\n"
    )
    rows = rows_of(table(tmp_path, "\ufeff" + text.replace(",", separator), name))
    assert [row.asked.options for row in rows] == [("x", "y"), ()]
    assert [row.asked.reference for row in rows] == ["B", None]
    assert [row.id for row in rows] == ["row-000002", "row-000005"]
    assert rows[0].asked.image == str(tmp_path / "a.png")
    assert rows[0].extra == {"kind": "k"}


def test_tables_with_an_options_column_and_big_cells(tmp_path: Path) -> None:
    big = "x" * 300_000
    text = f'image,question,options\na,"Q ""1"",\ntwo lines",yes | no\nb,{big},"[""p"", ""q""]"\n'
    first, second = rows_of(table(tmp_path, text))
    assert (first.asked.question, first.asked.options) == ('Q "1",\ntwo lines', ("yes", "no"))
    assert (second.asked.question, second.asked.options) == (big, ("p", "q"))
    assert second.id == "row-000004"


def test_bad_table_rows_fail_alone(tmp_path: Path) -> None:
    content = b'image,question\na,q\nb,"never closed\nc,q\nd,"x"y\ne\nf,q,z\n'
    content += b"g,\xe9t\xe9\nh,\nbad\xff.png,q\n"
    rows = rows_of(table(tmp_path, content))
    assert codes(rows) == [
        None, "input.bad_row", None, "input.bad_row", "input.bad_row", "input.bad_row",
        "input.encoding", "input.missing_field", None,
    ]  # fmt: skip
    assert rows[1].failure is not None
    assert f"{tmp_path}/t.csv:3: " in rows[1].failure.message
    assert os.fsencode(rows[-1].asked.image).endswith(b"bad\xff.png")


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet='a,"\n\r;\u00e9 |{[', max_size=40))
def test_any_table_is_read_to_its_end(tmp_path_factory: pytest.TempPathFactory, body: str) -> None:
    path = table(
        tmp_path_factory.getbasetemp(), f"image,question,options\n{body}\nz,q,\n", "any.csv"
    )
    rows = rows_of(path)
    assert rows[-1].asked.image.endswith("z")
    assert rows[-1].failure is None
    assert len({row.id for row in rows}) == len(rows)


# Whole inputs


def test_inputs_that_cannot_be_used_at_all(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    cases: list[tuple[Path, str]] = [
        (tmp_path / "missing.jsonl", "input.not_found"),
        (tmp_path / "pipe", "input.unknown_kind"),
        (table(tmp_path, PNG, "x.png"), "input.unknown_kind"),
        (table(tmp_path, "hello", "x.txt"), "input.unknown_kind"),
        (table(tmp_path, '[{"image": "a"}]', "x.json"), "input.unknown_kind"),
        (table(tmp_path, b"", "e.jsonl"), "input.no_rows"),
        (table(tmp_path, "image,question\n", "e.csv"), "input.no_rows"),
        (table(tmp_path, "a.png,What?\n", "h.csv"), "input.missing_field"),
        (table(tmp_path, "image,image\n", "d.csv"), "input.bad_header"),
        (table(tmp_path, "image,question".encode("utf-16"), "u.csv"), "input.encoding"),
    ]
    for path, code in cases:
        with pytest.raises(InputError) as caught:
            read_rows(str(path), question="?", stdin=io.BytesIO())
        assert caught.value.code == code, path
    with pytest.raises(InputError, match="standard input"):
        rows_of("-")


def test_fingerprints_and_counts(tmp_path: Path) -> None:
    path = table(tmp_path, lines({"image": "a"}, {"image": "b"}), "q.jsonl")
    before = input_fingerprint(str(path))
    assert count_rows(str(path)) == 2
    path.write_bytes(path.read_bytes() + b"\n")
    assert input_fingerprint(str(path)) != before
    assert count_rows(str(table(tmp_path, "image,question\na,b\n"))) == 1
    assert input_fingerprint("-") is None
    assert count_rows("-") is None
    (tmp_path / "a.png").write_bytes(PNG)
    before = input_fingerprint(str(tmp_path))
    (tmp_path / "b.txt").write_text("no image")
    assert input_fingerprint(str(tmp_path)) == before
    (tmp_path / "a.png").write_bytes(PNG + b"\0")
    assert input_fingerprint(str(tmp_path)) != before


# Memory


def test_seen_ids_grow() -> None:
    seen = SeenIds()
    assert all(seen.add(str(number)) for number in range(START_SLOTS))
    assert not any(seen.add(str(number)) for number in range(0, START_SLOTS, 997))
    assert len(seen) == START_SLOTS


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_ten_thousand_rows_take_no_more_memory_than_a_thousand(tmp_path: Path, kind: str) -> None:
    peaks = [_peak(_many(tmp_path, kind, count), count) for count in (1_000, 10_000)]
    assert peaks[1] <= 1.1 * peaks[0]


def _many(tmp_path: Path, kind: str, count: int) -> Path:
    def content() -> Iterator[str]:
        if kind == "csv":
            yield "image,question,id\n"
        for number in range(count):
            row = (f"{number}.png", "What is it?", f"id-{number}")
            fields = dict(zip(("image", "question", "id"), row, strict=True))
            yield ",".join(row) + "\n" if kind == "csv" else json.dumps(fields) + "\n"

    return table(tmp_path, "".join(content()), f"{count}.{kind}")


def _peak(path: Path, count: int) -> int:
    tracemalloc.start()
    try:
        number = sum(1 for _ in read_rows(str(path), stdin=io.BytesIO()))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert number == count
