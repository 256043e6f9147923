"""What a results file was made with, kept beside it, so that no file mixes two settings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from specctl.errors import StateError
from specctl.journal.lines import LineWriter, replace_file
from specctl.journal.records import models_to_dict, plain, to_json
from specctl.types import ModelInfo, Role

MANIFEST_SCHEMA = "specctl.manifest/1"
_INFORMATIVE = ("schema", "overridden", "input.source")
_KNOWN_LATER = ("input.", "models.")


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that results depend on.

    `models` maps a role to its `id`, `weights_sha256` and the like, None where it is not known
    before the model is loaded. `fingerprint` is that of the input, None if it has none.
    `overridden` lists the mismatches that a forced resume went over.
    """

    source: str
    fingerprint: str | None
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    prompts: Mapping[str, Any] = field(default_factory=dict)
    gate: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    overridden: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        record = {
            "schema": MANIFEST_SCHEMA,
            "input": {"source": self.source, "fingerprint": self.fingerprint},
            "models": self.models,
            "prompts": self.prompts,
            "gate": self.gate,
            "policy": self.policy,
            "versions": self.versions,
            "overridden": self.overridden,
        }
        values: dict[str, Any] = plain(record)
        return values

    def with_models(self, models: Mapping[Role, ModelInfo]) -> Manifest:
        """The same, with what loaded models say of themselves."""
        return replace(self, models={**plain(self.models), **models_to_dict(models)})


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of the manifest that is not what it was."""

    field: str
    old: Any
    new: Any


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """Fields that contradict each other; what one side does not know yet contradicts nothing."""
    before, now = dict(_flat(old)), dict(_flat(new))
    return [
        Difference(name, before.get(name), now.get(name))
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
        and not name.startswith(_INFORMATIVE)
        and not (name.startswith(_KNOWN_LATER) and None in (before.get(name), now.get(name)))
    ]


def continued(old: Mapping[str, Any], new: Manifest, path: str, force: bool) -> Manifest:
    """The manifest to go on with: `new`, with what only `old` knows.

    Raises `StateError` if they contradict each other, unless forced: then it keeps a record of it.
    """
    found = differences(old, new.to_dict())
    if found and not force:
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise StateError(
            f"{path} was made with {first.field} = {first.old!r}, now it is {first.new!r}{more}",
            hint="use the earlier settings, choose another --out, or --force to mix them",
        )
    overridden = [*old.get("overridden", ()), *(plain(item) for item in found)]
    models = {role: dict(facts) for role, facts in old.get("models", {}).items()}
    for role, facts in new.models.items():
        known = {name: value for name, value in facts.items() if value is not None}
        models[str(plain(role))] = {**models.get(str(plain(role)), facts), **known}
    return replace(new, models=models, overridden=tuple(overridden))


def read_manifest(path: str) -> dict[str, Any] | None:
    """The manifest at `path`; None if there is none that can be read."""
    try:
        with open(path, "rb") as stream:
            values = json.load(stream)
    except (FileNotFoundError, ValueError):
        return None
    return values if isinstance(values, dict) else None


def write_manifest(path: str, manifest: Manifest) -> None:
    """Write all of it or nothing."""
    temporary = f"{path}.tmp"
    if os.path.exists(temporary):
        os.unlink(temporary)
    writer = LineWriter(temporary)
    try:
        writer.write(to_json(manifest.to_dict(), indent=2).encode("ascii") + b"\n")
    finally:
        writer.close()
    replace_file(temporary, path)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested objects as `outer.inner` fields."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
