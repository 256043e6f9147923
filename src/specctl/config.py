"""Settings: what a user may choose, and where each value came from.

Flags win over `SPECCTL_*` variables, those over `./specctl.toml`, that over the user's own
`config.toml`, and that over the preset and the defaults. The command line library resolves flags,
variables and file values in this order; this module reads the files and says what is in them.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import platformdirs

from specctl.errors import UsageError
from specctl.kinds import DEVICE, FILE, SWITCH, TEXT, Kind, at_least, choice, number
from specctl.presets import Preset, load_preset, preset_names
from specctl.types import Aggregate, PlanMode, Word

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ENV_PREFIX = "SPECCTL_"
ENV_ONLY = ("SPECCTL_CONFIG", "SPECCTL_DEBUG")
PROJECT_FILE = "specctl.toml"


class Format(Word):
    """How a command shows what happens."""

    AUTO = "auto"
    RICH = "rich"
    PLAIN = "plain"
    JSON = "json"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting there is; None means that the preset decides."""

    preset: str = "bundled"
    drafter: str | None = None
    verifier: str | None = None
    device: str = "auto"
    drafter_device: str | None = None
    verifier_device: str | None = None
    dtype: str = "auto"
    offline: bool = False
    system_prompt: Path | None = None
    threshold: float | None = None
    aggregate: Aggregate | None = None
    top_k: int | None = None
    min_margin: float | None = None
    plan: PlanMode = PlanMode.AUTO
    no_draft: bool = False
    max_turns: int = 6
    max_new_tokens: int = 1024
    time_limit: float | None = None
    save_crops: Path | None = None
    out: Path | None = None
    compare: bool = False
    format: Format = Format.AUTO
    json: bool = False
    quiet: bool = False
    verbose: bool = False

    def resolve_preset(self) -> Preset:
        """The preset with every value that was chosen put in its place."""
        preset = load_preset(self.preset)
        gate = {
            name: value
            for name in ("threshold", "aggregate", "top_k", "min_margin")
            if (value := getattr(self, name)) is not None
        }
        drafter = replace(preset.drafter, model=self.drafter or preset.drafter.model)
        verifier = replace(preset.verifier, model=self.verifier or preset.verifier.model)
        if self.system_prompt is not None:
            verifier = replace(verifier, system=_prompt_text(self.system_prompt))
        return replace(
            preset, drafter=drafter, verifier=verifier, gate=replace(preset.gate, **gate)
        )


KINDS: dict[str, Kind] = {
    "preset": choice(preset_names()),
    "drafter": TEXT,
    "verifier": TEXT,
    "device": DEVICE,
    "drafter_device": DEVICE,
    "verifier_device": DEVICE,
    "dtype": choice(("auto", "float32", "bfloat16", "float16")),
    "offline": SWITCH,
    "system_prompt": FILE,
    "threshold": number("a number between 0 and 1", lambda value: 0 <= value <= 1),
    "aggregate": choice(Aggregate),
    "top_k": at_least(3),
    "min_margin": number("a number of logits, at least 0", lambda value: value >= 0),
    "plan": choice(PlanMode),
    "no_draft": SWITCH,
    "max_turns": at_least(1),
    "max_new_tokens": at_least(1),
    "time_limit": number("a number of seconds above 0", lambda value: value > 0),
    "save_crops": FILE,
    "out": FILE,
    "compare": SWITCH,
    "format": choice(Format),
    "json": SWITCH,
    "quiet": SWITCH,
    "verbose": SWITCH,
}
"""What each setting may be."""

SETTING_NAMES = tuple(name for name in KINDS if name != "json")
"""What files and variables may set; `--json` is a flag alone, short for a value of `format`."""


@dataclass(frozen=True, slots=True)
class ConfigValues:
    """What the files say: each setting's value, and the file that it stands in."""

    values: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, Path] = field(default_factory=dict)


def read_config(chosen: Path | None, working_folder: Path) -> ConfigValues:
    """Read the `chosen` file, or else the user's own and the project's, the latter winning."""
    if chosen is not None:
        if not chosen.is_file():
            raise UsageError(f"there is no configuration file {chosen}")
        files = [chosen]
    else:
        user_file = Path(platformdirs.user_config_dir("specctl")) / "config.toml"
        files = [path for path in (user_file, working_folder / PROJECT_FILE) if path.is_file()]
    values: dict[str, Any] = {}
    origins: dict[str, Path] = {}
    for path in files:
        found = _read_file(path)
        values.update(found)
        origins.update(dict.fromkeys(found, path))
    return ConfigValues(values, origins)


def check_environment(names: Iterable[str]) -> None:
    """Raise `UsageError` for a `SPECCTL_*` variable that sets nothing."""
    known = [*ENV_ONLY, *(environment_name(setting) for setting in SETTING_NAMES)]
    for name in names:
        if name.startswith(ENV_PREFIX) and name not in known:
            raise UsageError(f"{name} sets nothing", hint=nearest(name, known))


def check_value(where: str, setting: str, value: Any) -> None:
    """Raise `UsageError` for a value that is not of the setting's kind; `where` begins it."""
    kind = KINDS[setting]
    if not kind.accepts(value):
        raise UsageError(f"{where} must be {kind.words}, not {value!r}")


def environment_name(setting: str) -> str:
    """The variable that sets a setting."""
    return ENV_PREFIX + setting.upper()


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the known word closest to `word`, or all of them."""
    known = sorted(known)
    found = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {found[0]}?" if found else "known: " + ", ".join(known)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    values = {key.replace("-", "_"): value for key, value in data.items()}
    for key, value in values.items():
        if key not in SETTING_NAMES:
            raise UsageError(
                f"{path}: there is no setting {key!r}", hint=nearest(key, SETTING_NAMES)
            )
        check_value(f"{path}: {key}", key, value)
    return values


def _prompt_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the system prompt {path} cannot be read: {error}") from error
