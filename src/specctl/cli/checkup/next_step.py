"""The one command to type next: a query if all is well, else what gets nearer to one."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import specctl
from specctl.cli.checkup.facts import Facts, ModelFacts

SAMPLE = Path("sample_images", "scene-01-green-square-2016px.png")
QUESTION = "What shape is the green object?"


def next_step(facts: Facts) -> str:
    """A command that can be typed as it is."""
    lacking = [library for library in facts.software.libraries if library.version is None]
    if lacking:
        wanted = (f"{library.name}{library.wanted}" for library in lacking)
        return shlex.join([sys.executable, "-m", "pip", "install", *wanted])
    if facts.machine.torch_fault:
        return shlex.join([sys.executable, "-m", "pip", "install", "--force-reinstall", "torch"])
    for model in facts.models:
        if model.placing.fault:
            return _specctl(facts, "doctor", **{model.device_setting: "auto"})
    for model in facts.models:
        if model.checkpoint.faults and _is_hopeless(model, facts):
            return _without(model, facts)
    if any(fit.fits is False for fit in facts.fits):
        return _smaller(facts)
    return _query(facts)


def _is_hopeless(model: ModelFacts, facts: Facts) -> bool:
    """Whether a run would not fetch what is lacking."""
    faults = model.checkpoint.faults
    fetches = model.checkpoint.is_from_hub and not facts.network.is_offline
    return not (fetches and all(fault.is_absent for fault in faults))


def _without(model: ModelFacts, facts: Facts) -> str:
    """Fetch a hub model that is merely absent; replace any other by the bundled one."""
    checkpoint = model.checkpoint
    if checkpoint.is_from_hub and all(fault.is_absent for fault in checkpoint.faults):
        return _download(checkpoint.source)
    return _specctl(facts, "doctor", **{str(model.role): f"bundled:{model.role}"})


def _download(source: str) -> str:
    """The hub library's own command, which asks the network only where it is allowed to."""
    from huggingface_hub import constants

    beside = Path(sys.executable).with_name("hf")
    program = "hf" if shutil.which("hf") or not beside.is_file() else str(beside)
    allowed = ["env", "HF_HUB_OFFLINE=0"] if constants.HF_HUB_OFFLINE else []
    return shlex.join([*allowed, program, "download", source])


def _smaller(facts: Facts) -> str:
    """Half precision halves float32; after that only smaller models help."""
    tight = {fit.device for fit in facts.fits if fit.fits is False}
    models = [model for model in facts.models if model.placing.device in tight]
    if any(model.placing.dtype == "float32" for model in models):
        return _specctl(facts, "doctor", dtype="bfloat16")
    return _specctl(facts, "doctor", **{str(m.role): f"bundled:{m.role}" for m in models})


def _query(facts: Facts) -> str:
    """A query about a sample picture, or where none is at hand, the shape of one."""
    beside = Path(specctl.__file__).parents[2] / SAMPLE
    image = next((path for path in (SAMPLE, beside) if path.is_file()), None)
    if image is None:
        return _specctl(facts, "run", "IMAGE", QUESTION)
    return _specctl(facts, "run", str(image), QUESTION)


def _specctl(facts: Facts, command: str, *arguments: str, **changed: str) -> str:
    """A command of ours with the flags of this one, some of them changed."""
    flags = {**facts.configuration.model_flags, **changed}
    program = ["specctl"] if shutil.which("specctl") else [sys.executable, "-m", "specctl"]
    words = [*program, command, *arguments]
    for name, value in flags.items():
        words += [f"--{name.replace('_', '-')}", *([] if name == "offline" else [value])]
    return " ".join(f'"{w}"' if w == QUESTION else shlex.quote(w) for w in words)
