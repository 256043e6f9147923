"""The two models of a run, each loaded when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from specctl.models.interface import Model
from specctl.types import ModelInfo, Role

Loader = Callable[[], Model]


@dataclass(slots=True)
class Pair:
    """Loads at most one model for each role; a draft that is accepted never loads the verifier."""

    loaders: Mapping[Role, Loader]
    loaded: dict[Role, Model] = field(default_factory=dict)

    def is_loaded(self, role: Role) -> bool:
        return role in self.loaded

    def model(self, role: Role) -> Model:
        """The model, loading it now if need be; raises `ModelError`."""
        if role not in self.loaded:
            self.loaded[role] = self.loaders[role]()
        return self.loaded[role]

    def forget(self) -> None:
        """Drop what models keep between queries, as if no image had been seen."""
        for model in self.loaded.values():
            model.forget()

    def infos(self) -> dict[Role, ModelInfo]:
        """Which weights are loaded so far."""
        return {role: model.info for role, model in self.loaded.items()}

    def forward_passes(self) -> dict[Role, int]:
        """Forward passes of each loaded model so far."""
        return {role: model.forward_passes for role, model in self.loaded.items()}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one model comes from and how it is held; device and dtype may be auto."""

    source: str
    device: str = "auto"
    dtype: str = "auto"


def load_pair(drafter: Placement, verifier: Placement, *, top_k: int, offline: bool) -> Pair:
    """A pair of real checkpoints; nothing is read before a model is first needed.

    With `offline`, a hub id is found in the local cache or not at all.
    """

    def loader(role: Role, placement: Placement) -> Loader:
        def load() -> Model:
            from specctl.models.checkpoint import load_model  # torch: seconds to import

            return load_model(
                placement.source,
                role_name=str(role),
                device=placement.device,
                dtype=placement.dtype,
                top_k=top_k,
                offline=offline,
            )

        return load

    return Pair(
        {
            Role.DRAFTER: loader(Role.DRAFTER, drafter),
            Role.VERIFIER: loader(Role.VERIFIER, verifier),
        }
    )
