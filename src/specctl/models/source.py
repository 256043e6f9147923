"""Where a checkpoint lies: a local folder, one of the bundled pair, or a hub id, as one folder.

After this nothing else looks anything up, so a run is offline unless it was told otherwise here.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

from specctl.errors import ModelError

BUNDLED_PREFIX = "bundled:"
BUNDLED_NAMES = ("drafter", "verifier")
WHOLE_FILE_BYTES = 64 * 2**20
SAMPLED_BLOCKS, BLOCK_BYTES = 256, 2**16
WANTED_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt")


def resolve(source: str, *, offline: bool) -> Path:
    """The folder of `source`; raises `ModelError` where there is none."""
    if source.startswith(BUNDLED_PREFIX):
        return _bundled(source)
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists() or not _looks_like_hub_id(source):
        raise ModelError(
            f"there is no model folder at {source}",
            code="model.not_found",
            hint="give a folder with config.json and *.safetensors, a hub id, or bundled:drafter",
        )
    return _from_hub(source, offline=offline)


def weight_files(folder: Path) -> list[Path]:
    """The checkpoint's safetensors shards by name; raises `ModelError` if there are none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = any(folder.glob("*.bin")) or any(folder.glob("*.pt*"))
        raise ModelError(
            f"{folder} has no *.safetensors weights",
            code="model.weights_missing",
            hint="pickled weights are never loaded: convert them to safetensors"
            if pickled
            else "the download may be incomplete",
        )
    return files


def weights_sha256(folder: Path) -> str:
    """An identity of the weights: sha256 over each shard's name and digest.

    Shards over 64 MB count by their safetensors header, their size and 256 blocks of 64 KB spread
    over them, so that opening a large model does not read it twice; weights that differ nowhere in
    these blocks are not told apart.
    """
    whole = hashlib.sha256()
    for path in weight_files(folder):
        whole.update(f"{path.name}\0{_digest(path)}\n".encode())
    return whole.hexdigest()


def _digest(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= WHOLE_FILE_BYTES:
            return hashlib.sha256(file.read()).hexdigest()
        header_bytes = file.read(8)
        header = file.read(min(int.from_bytes(header_bytes, "little"), WHOLE_FILE_BYTES))
        digest = hashlib.sha256(header_bytes + header + str(size).encode())
        for block in range(SAMPLED_BLOCKS):
            file.seek((size - BLOCK_BYTES) * block // (SAMPLED_BLOCKS - 1))
            digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()


def _bundled(source: str) -> Path:
    name = source[len(BUNDLED_PREFIX) :]
    if name not in BUNDLED_NAMES:
        known = ", ".join(BUNDLED_PREFIX + known for known in BUNDLED_NAMES)
        raise ModelError(f"nothing named {source} is bundled", hint=f"bundled models: {known}")
    folder = Path(str(resources.files("specctl.bundled").joinpath(name)))
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"this installation lacks the files of {source}",
            code="model.not_found",
            hint="reinstall specctl",
        )
    return folder


def _looks_like_hub_id(source: str) -> bool:
    owner, slash, name = source.partition("/")
    return bool(owner and slash and name) and "/" not in name and not owner.startswith((".", "~"))


def _from_hub(source: str, *, offline: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            source, allow_patterns=list(WANTED_FILES), local_files_only=offline
        )
    except LocalEntryNotFoundError as error:
        hint = "run once without --offline to download it" if offline else "check the network"
        raise ModelError(
            f"{source} is neither a folder nor in the local model cache",
            code="model.not_found",
            hint=hint,
        ) from error
    except (HfHubHTTPError, ValueError, OSError) as error:
        raise ModelError(
            f"{source} cannot be downloaded: {first_line(error)}",
            code="model.not_found",
            hint="check the id and your access to it",
        ) from error
    return Path(folder)


def first_line(error: BaseException) -> str:
    """An exception's message on one line, or its kind if it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
