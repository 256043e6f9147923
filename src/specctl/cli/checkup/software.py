"""Which libraries are installed, and whether they lie in the ranges that specctl declares."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import specctl

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class Library:
    """One distribution: its version if it is there, and the range that is asked for."""

    name: str
    version: str | None
    wanted: str = ""

    @property
    def is_in_range(self) -> bool:
        """Whether it is there in a version that is asked for."""
        return self.version is not None and SpecifierSet(self.wanted).contains(
            self.version, prereleases=True
        )


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional set of libraries."""

    name: str
    libraries: tuple[Library, ...]


@dataclass(frozen=True, slots=True)
class Software:
    """Everything installed that specctl declares; `libraries` are those it cannot do without."""

    version: str
    is_installed: bool
    libraries: tuple[Library, ...]
    extras: tuple[Extra, ...] = ()


@dataclass(frozen=True, slots=True)
class _Declared:
    python: str
    requirements: tuple[Requirement, ...]
    extras: tuple[str, ...]
    is_installed: bool


def read_software() -> Software:
    """Read the metadata of what is installed; imports none of it."""
    declared = _declared()
    base = [r for r in declared.requirements if _applies(r, "")]
    libraries = [
        Library("Python", platform.python_version(), declared.python),
        *(_library(requirement) for requirement in base),
        *_tokenizers(),
    ]
    extras = tuple(
        Extra(name, tuple(_library(r) for r in declared.requirements if _is_for(r, name)))
        for name in declared.extras
    )
    return Software(specctl.__version__, declared.is_installed, tuple(libraries), extras)


def _declared() -> _Declared:
    """What the installed distribution asks for, or else the source tree's pyproject.toml."""
    try:
        about = metadata.metadata("specctl")
    except metadata.PackageNotFoundError:
        return _declared_in_source(Path(specctl.__file__).parents[2] / "pyproject.toml")
    requirements = tuple(Requirement(text) for text in metadata.requires("specctl") or ())
    python = (about.get_all("Requires-Python") or [""])[0]
    return _Declared(python, requirements, tuple(about.get_all("Provides-Extra") or ()), True)


def _declared_in_source(path: Path) -> _Declared:
    if not path.is_file():
        return _Declared("", (), (), False)
    project = tomllib.loads(path.read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    optional = (f'{text}; extra == "{name}"' for name in extras for text in extras[name])
    texts = [*project["dependencies"], *optional]
    requirements = tuple(Requirement(text) for text in texts)
    return _Declared(project["requires-python"], requirements, tuple(extras), False)


def _tokenizers() -> Iterator[Library]:
    """Declared by transformers, not by us; a wrong one breaks every load."""
    try:
        texts = metadata.requires("transformers") or ()
    except metadata.PackageNotFoundError:
        return
    requirements = (Requirement(text) for text in texts)
    yield from (_library(r) for r in requirements if r.name == "tokenizers" and _applies(r, ""))


def _library(requirement: Requirement) -> Library:
    wanted = ",".join(sorted(map(str, requirement.specifier), reverse=True))
    return Library(requirement.name, _version(requirement.name), wanted)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _is_for(requirement: Requirement, extra: str) -> bool:
    return _applies(requirement, extra) and not _applies(requirement, "")
