"""Opening a results file: what is there already, whether it fits, and that nobody else writes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TextIO

from filelock import FileLock, Timeout

from specctl.errors import StateError, UsageError
from specctl.journal.lines import cannot_write, cut_torn_line
from specctl.journal.manifest import Manifest, continued, read_manifest, write_manifest
from specctl.journal.records import SCHEMA
from specctl.journal.results import Results, ResultsFile, StreamResults, manifest_path
from specctl.types import Word

STDOUT = "-"


class Mode(Word):
    """What is to happen with results that are there already.

    `resume` runs the rows that have none, `only_failed` also those that failed.
    """

    NEW = "new"
    RESUME = "resume"
    ONLY_FAILED = "only_failed"


def open_results(
    path: str,
    manifest: Manifest,
    *,
    mode: Mode = Mode.NEW,
    force: bool = False,
    stdout: TextIO,
) -> Results:
    """Where the records of a batch go: a file with its manifest and lock, or `stdout` for "-".

    Raises `StateError` if the file exists (mode `new`), is being written by somebody else, or was
    made with other settings; `force` overrules the last.
    """
    if path == STDOUT:
        return StreamResults(stdout)
    path = os.path.realpath(path)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        what = "is a folder" if os.path.isdir(path) else "is in a folder that does not exist"
        raise UsageError(f"--out {path} {what}", hint="name a file in an existing folder")
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        hint = "name an ordinary file, or - for standard output"
        raise UsageError(f"--out {path} is not an ordinary file", hint=hint)
    try:
        release = _lock(path)
        try:
            return _prepare(path, manifest, mode, force, release)
        except BaseException:
            release()
            raise
    except OSError as error:
        raise cannot_write(path, error) from error


def _prepare(
    path: str, manifest: Manifest, mode: Mode, force: bool, release: Callable[[], None]
) -> ResultsFile:
    partial = f"{path}.partial"
    if mode is Mode.NEW and os.path.exists(path):
        raise StateError(
            f"{path} exists already",
            hint="--resume continues it, --only-failed runs its failed rows again",
        )
    if not os.path.exists(path) or not os.path.getsize(path):
        if os.path.exists(partial):
            os.unlink(partial)
        write_manifest(manifest_path(path), manifest)
        return ResultsFile(path, manifest, force=force, release=release)
    manifest = _checked(path, manifest, force)
    cut_torn_line(path)
    # An interrupted run over failed rows is finished first, by whichever mode comes next.
    rewrite = mode is Mode.ONLY_FAILED or os.path.exists(partial)
    if os.path.exists(partial):
        cut_torn_line(partial)
    if read_manifest(manifest_path(path)) != manifest.to_dict():
        write_manifest(manifest_path(path), manifest)
    return ResultsFile(
        path, manifest, partial=partial if rewrite else None, force=force, release=release
    )


def _checked(path: str, manifest: Manifest, force: bool) -> Manifest:
    """The manifest to continue with; `StateError` if the file is of other settings, or unknown."""
    old = read_manifest(manifest_path(path))
    if old is not None:
        return continued(old, manifest, path, force)
    if not force:
        raise StateError(
            f"{path} has no manifest, so what it was made with is not known",
            hint="choose another --out, or --force to continue it all the same",
        )
    if not _holds_results(path):
        raise StateError(f"{path} is not a file of results", hint="choose another --out")
    return manifest


def _holds_results(path: str) -> bool:
    """Does the file begin as results do? What is not ours must never be cut or continued."""
    start = f'{{"schema": "{SCHEMA}"'.encode()
    with open(path, "rb") as stream:
        head = stream.read(len(start))
    return start.startswith(head)


def _lock(path: str) -> Callable[[], None]:
    """Hold the file's lock until the returned function is called or the process ends."""
    folder, name = os.path.split(path)
    # The kernel frees the lock with its process, so the file itself may stay where it is.
    lock = FileLock(os.path.join(folder, f".{name}.lock"), thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise StateError(
            f"{path} is being written by another process",
            hint="wait until it has finished, or choose another --out",
        ) from error
    return lambda: lock.release(force=True)
