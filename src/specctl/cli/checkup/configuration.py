"""Where settings come from, and whether models may come from the network."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import typer

from specctl.cli.options import MODEL_FLAGS, origins
from specctl.config import (
    ENV_PREFIX,
    PROJECT_FILE,
    SETTING_NAMES,
    ConfigValues,
    environment_name,
)

FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Origin:
    """A setting that is not at its default."""

    name: str
    value: str
    where: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """Files and variables that were read, and what they set."""

    files: tuple[Path, ...]
    looked_for: tuple[Path, ...]
    variables: tuple[str, ...]
    origins: tuple[Origin, ...]

    @property
    def model_flags(self) -> dict[str, str]:
        """Flags about models that were given on this command line."""
        return {o.name: o.value for o in self.origins if o.where == FLAG and o.name in MODEL_FLAGS}


@dataclass(frozen=True, slots=True)
class Network:
    """Whether hub models may be downloaded, and where downloaded ones are kept."""

    offline_because: str
    cache: Path

    @property
    def is_offline(self) -> bool:
        return bool(self.offline_because)


def read_configuration(ctx: typer.Context) -> Configuration:
    """Which files were found, which variables are set, and the origin of each setting."""
    config = ctx.obj if isinstance(ctx.obj, ConfigValues) else ConfigValues()
    chosen = ctx.parent.params.get("config") if ctx.parent else None
    user_file = Path(platformdirs.user_config_dir("specctl")) / "config.toml"
    looked_for = (Path(chosen),) if chosen else (user_file, Path.cwd() / PROJECT_FILE)
    own = [Origin(*told) for told in origins(ctx, config)]
    taken = {origin.name for origin in own} | set(ctx.params)
    return Configuration(
        files=tuple(path for path in looked_for if path.is_file()),
        looked_for=looked_for,
        variables=tuple(sorted(name for name in os.environ if name.startswith(ENV_PREFIX))),
        origins=(*own, *_others(config, taken)),
    )


def read_network(offline: bool) -> Network:
    """The hub library's own state beside our setting."""
    from huggingface_hub import constants

    reasons = ["the offline setting"] if offline else []
    if constants.HF_HUB_OFFLINE:
        reasons.append("HF_HUB_OFFLINE")
    return Network(" and ".join(reasons), Path(constants.HF_HUB_CACHE))


def _others(config: ConfigValues, taken: set[str]) -> list[Origin]:
    """Settings of other commands, which this one has no flags for."""
    told = []
    for name in SETTING_NAMES:
        variable = environment_name(name)
        if name in taken:
            continue
        if variable in os.environ:
            told.append(Origin(name, os.environ[variable], variable))
        elif name in config.values:
            told.append(Origin(name, str(config.values[name]), str(config.origins[name])))
    return told
