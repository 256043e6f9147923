"""All facts of a check-up, gathered once; what they mean is said in `report`."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from specctl.cli.checkup.configuration import (
    Configuration,
    Network,
    read_configuration,
    read_network,
)
from specctl.cli.checkup.machine import DTYPE_BYTES, Machine, Placing, choose, read_machine
from specctl.cli.checkup.software import Software, read_software
from specctl.config import Settings
from specctl.models.inspect import Checkpoint, inspect_checkpoint
from specctl.presets import Preset
from specctl.types import Role


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model: what its files say, and where it would run."""

    role: Role
    checkpoint: Checkpoint
    placing: Placing
    device_setting: str = "device"

    @property
    def weight_bytes(self) -> int | None:
        """Memory that the weights take in the precision that they would run in."""
        parameters = self.checkpoint.num_parameters
        return None if parameters is None else parameters * DTYPE_BYTES[self.placing.dtype]

    @property
    def kv_bytes_per_1000_tokens(self) -> int | None:
        """Memory that the keys and values of 1,000 tokens take."""
        values = self.checkpoint.kv_values_per_token
        return None if values is None else 1000 * values * DTYPE_BYTES[self.placing.dtype]


@dataclass(frozen=True, slots=True)
class Fit:
    """What the models on one device need together, and what is free there; None is not known."""

    device: str
    weight_bytes: int | None
    kv_bytes_per_1000_tokens: int | None
    free_bytes: int | None

    @property
    def fits(self) -> bool | None:
        """Whether the weights fit."""
        if self.weight_bytes is None or self.free_bytes is None:
            return None
        return self.weight_bytes <= self.free_bytes

    @property
    def room_tokens(self) -> int | None:
        """Tokens whose keys and values fit beside the weights."""
        if not self.fits or not self.kv_bytes_per_1000_tokens:
            return None
        spare = (self.free_bytes or 0) - (self.weight_bytes or 0)
        return 1000 * spare // self.kv_bytes_per_1000_tokens


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that `specctl doctor` found."""

    software: Software
    machine: Machine
    preset: Preset
    models: tuple[ModelFacts, ...]
    configuration: Configuration
    network: Network

    @property
    def fits(self) -> tuple[Fit, ...]:
        """One for each device that a model would run on."""
        devices = dict.fromkeys(m.placing.device for m in self.models if not m.placing.fault)
        return tuple(self._fit(device) for device in devices)

    def _fit(self, device: str) -> Fit:
        there = [model for model in self.models if model.placing.device == device]
        return Fit(
            device,
            _total([model.weight_bytes for model in there]),
            _total([model.kv_bytes_per_1000_tokens for model in there]),
            self.machine.free_on(device),
        )


def gather(ctx: typer.Context, settings: Settings) -> Facts:
    """Look at everything; raises `UsageError` for settings that mean nothing."""
    preset, machine = settings.resolve_preset(), read_machine()
    sources = {Role.DRAFTER: preset.drafter.model, Role.VERIFIER: preset.verifier.model}
    return Facts(
        software=read_software(),
        machine=machine,
        preset=preset,
        models=tuple(_model(role, sources[role], settings, machine) for role in sources),
        configuration=read_configuration(ctx),
        network=read_network(settings.offline),
    )


def _model(role: Role, source: str, settings: Settings, machine: Machine) -> ModelFacts:
    checkpoint = inspect_checkpoint(source)
    own = f"{role}_device"
    setting = own if getattr(settings, own) else "device"
    device = getattr(settings, setting)
    placing = choose(device, settings.dtype, checkpoint.stored_dtype, machine)
    return ModelFacts(role, checkpoint, placing, setting)


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
