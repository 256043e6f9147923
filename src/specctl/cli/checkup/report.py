"""Facts judged: sections of findings, each ok, a warning or a problem."""

from __future__ import annotations

from collections.abc import Iterator

from specctl.cli.checkup.facts import Facts, Fit, ModelFacts
from specctl.cli.checkup.machine import Machine
from specctl.cli.checkup.software import Extra, Library
from specctl.models.inspect import FAMILIES, Fault
from specctl.render.doctor_view import Finding, Mark, Section

NAMED_LIBRARIES = ("Python", "torch", "transformers", "tokenizers", "pillow")
LEAST_ROOM_TOKENS = 8192
FAULT_NAMES = {
    "model.not_found": "source",
    "model.config": "config",
    "model.family": "family",
    "model.weights": "weights",
    "model.weights_missing": "weights",
    "model.tokenizer": "tokenizer",
    "model.image_processor": "image settings",
    "model.chat_template": "chat template",
}
OK, WARNING, PROBLEM = Mark.OK, Mark.WARNING, Mark.PROBLEM


def judge(facts: Facts) -> list[Section]:
    """The whole report, in the order in which things can go wrong."""
    parts = {
        "software": _software(facts),
        "devices": _devices(facts.machine),
        **{str(model.role): _model(model, facts) for model in facts.models},
        "memory": _memory(facts),
        "settings": _settings(facts),
        "extras": (_extra(extra) for extra in facts.software.extras),
        "network": _network(facts),
    }
    sections = (Section(title, tuple(findings)) for title, findings in parts.items())
    return [section for section in sections if section.findings]


def size(num_bytes: int | None) -> str:
    """Memory with three digits: `5.43 MiB`, `15.5 GiB`."""
    if num_bytes is None:
        return "not known"
    value, unit = num_bytes / 2**20, "MiB"
    if value >= 1000:
        value, unit = value / 1024, "GiB"
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def parameters(count: int) -> str:
    """`1.36 million`, `8.29 billion`."""
    value, unit = (count / 1e9, "billion") if count >= 1e9 else (count / 1e6, "million")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def _software(facts: Facts) -> Iterator[Finding]:
    software = facts.software
    where = "" if software.is_installed else " (run from its source tree, not installed)"
    yield Finding(OK, "specctl", software.version + where)
    others = []
    for library in software.libraries:
        if library.name in NAMED_LIBRARIES or not library.is_in_range:
            yield _library(library)
        else:
            others.append(library)
    if others:
        told = ", ".join(f"{library.name} {library.version}" for library in others)
        yield Finding(OK, "others", told)


def _library(library: Library) -> Finding:
    name = "Pillow" if library.name == "pillow" else library.name
    if library.version is None:
        hint = f"pip install '{library.name}{library.wanted}'"
        return Finding(PROBLEM, name, f"not installed; wanted {library.wanted or 'any'}", hint)
    asked = f"{library.version} (wanted {library.wanted or 'any'})"
    if library.is_in_range:
        return Finding(OK, name, asked)
    return Finding(WARNING, name, f"{asked}: outside the range that specctl is tested with")


def _devices(machine: Machine) -> Iterator[Finding]:
    memory = f"{size(machine.free_bytes)} free of {size(machine.total_bytes)}"
    yield Finding(OK, "CPU", f"{machine.cpu}, {machine.cores} cores, {memory}")
    if machine.torch_fault:
        hint = "install it again: its files and this system do not match"
        yield Finding(PROBLEM, "torch", f"cannot be imported: {machine.torch_fault}", hint)
        return
    for gpu in machine.gpus:
        memory = f"{size(gpu.free_bytes)} free of {size(gpu.total_bytes)}"
        yield Finding(OK, gpu.device, f"{gpu.name}, {memory}")
    if machine.gpus:
        first = machine.gpus[0]
        yield Finding(OK, "auto", f"picks {first.device} for both models: torch's first GPU")
    else:
        yield Finding(OK, "GPU", f"none: {machine.why_no_gpu}")
        yield Finding(OK, "auto", "picks the CPU for both models: there is no GPU")


def _model(model: ModelFacts, facts: Facts) -> Iterator[Finding]:
    checkpoint = model.checkpoint
    if checkpoint.folder is not None:
        is_elsewhere = str(checkpoint.folder) != checkpoint.source
        where = f" at {checkpoint.folder}" if is_elsewhere else ""
        yield Finding(OK, "source", f"{checkpoint.source}, found{where}")
    if checkpoint.family in FAMILIES:
        yield Finding(OK, "family", f"{FAMILIES[checkpoint.family]} ({checkpoint.family})")
    for fault in checkpoint.faults:
        yield _fault(fault, model, facts)
    if checkpoint.num_parameters is not None:
        told = parameters(checkpoint.num_parameters)
        yield Finding(OK, "parameters", f"{told}, stored as {checkpoint.stored_dtype or 'unsaid'}")
        per_1000 = size(model.kv_bytes_per_1000_tokens)
        need = f"{size(model.weight_bytes)} of weights in {model.placing.dtype}"
        yield Finding(OK, "memory", f"{need}; KV {per_1000} per 1,000 tokens")
    if checkpoint.folder is not None and not checkpoint.faults:
        told = "weights, tokenizer, image settings and chat template are there"
        yield Finding(OK, "files", told)
    yield _placing(model, facts.machine)


def _fault(fault: Fault, model: ModelFacts, facts: Facts) -> Finding:
    """A file that a run would download is no problem yet."""
    name = FAULT_NAMES.get(fault.code, "files")
    if model.checkpoint.is_from_hub and fault.is_absent and not facts.network.is_offline:
        hint = "a run downloads what the hub has; this command downloads nothing"
        return Finding(WARNING, name, fault.message, hint)
    return Finding(PROBLEM, name, fault.message, fault.hint)


def _placing(model: ModelFacts, machine: Machine) -> Finding:
    """The device and what its precision means."""
    placing, gpu = model.placing, machine.gpu(model.placing.device)
    told = f"{placing.dtype} on {placing.device}"
    if placing.fault:
        return Finding(PROBLEM, "device", placing.fault, "use auto, cpu, cuda or cuda:N")
    if gpu is None and placing.dtype != "float32":
        slow = f"{told}: half precision is slow on most CPUs, and rounds scores"
        return Finding(WARNING, "device", slow, "--dtype auto means float32 on a CPU")
    if gpu is None:
        return Finding(OK, "device", told)
    if placing.dtype == "float32":
        return Finding(OK, "device", f"{told}: twice the memory of half precision, and slower")
    if placing.dtype == "bfloat16" and not gpu.has_bfloat16:
        slow = f"{told}: this GPU only emulates bfloat16"
        return Finding(WARNING, "device", slow, "use --dtype float16 or float32")
    if placing.dtype == "float16" and model.checkpoint.stored_dtype == "bfloat16":
        risk = f"{told}: weights made for bfloat16's range may overflow"
        return Finding(WARNING, "device", risk, "use --dtype bfloat16")
    return Finding(OK, "device", f"{told}: near ties may fall otherwise than in float32")


def _memory(facts: Facts) -> Iterator[Finding]:
    yield from (_fit(fit) for fit in facts.fits)
    on_gpu = [m.weight_bytes or 0 for m in facts.models if facts.machine.gpu(m.placing.device)]
    free = facts.machine.free_bytes
    if free is not None and max(on_gpu, default=0) > free:
        told = f"a GPU's weights pass through main memory, of which {size(free)} is free"
        yield Finding(WARNING, "loading", told, "loading may swap or fail; free some memory")


def _fit(fit: Fit) -> Finding:
    """Whether all that would run on a device has room there."""
    if fit.fits is None:
        what = "free memory" if fit.free_bytes is None else "the size of the weights"
        return Finding(WARNING, fit.device, f"{what} is not known, so the fit is not checked")
    told = f"{size(fit.weight_bytes)} of weights, {size(fit.free_bytes)} free"
    if not fit.fits:
        hint = "use smaller models, a half-precision dtype, or another device"
        return Finding(PROBLEM, fit.device, f"does not fit: {told}", hint)
    if fit.room_tokens is None:
        return Finding(OK, fit.device, f"fits: {told}")
    if fit.room_tokens < LEAST_ROOM_TOKENS:
        text = f"fits barely: {told}, KV for {fit.room_tokens:,} tokens"
        return Finding(WARNING, fit.device, text, "a large image alone may take 4,000 tokens")
    room = f"{fit.room_tokens:,}" if fit.room_tokens < 1_000_000 else "over a million"
    return Finding(OK, fit.device, f"fits: {told}, KV for {room} tokens")


def _settings(facts: Facts) -> Iterator[Finding]:
    found = facts.configuration
    yield Finding(OK, "preset", f"{facts.preset.name}: {facts.preset.summary}")
    files = ", ".join(map(str, found.files))
    looked = " and ".join(map(str, found.looked_for))
    yield Finding(OK, "files", files or f"none; looked for {looked}")
    yield Finding(OK, "variables", ", ".join(found.variables) or "none that begin with SPECCTL_")
    for origin in found.origins:
        name = origin.name.replace("_", "-")
        yield Finding(OK, name, f"{origin.value} (from {_place(origin.where)})")


def _place(where: str) -> str:
    return "a flag" if where == "flag" else where


def _extra(extra: Extra) -> Finding:
    lacking = [library for library in extra.libraries if not library.is_in_range]
    if not lacking:
        return Finding(OK, extra.name, "installed")
    told = ", ".join(f"{library.name}{library.wanted}" for library in lacking)
    return Finding(OK, extra.name, f"not installed (optional); lacks {told}")


def _network(facts: Facts) -> Iterator[Finding]:
    network = facts.network
    if network.is_offline:
        yield Finding(OK, "offline", f"yes, by {network.offline_because}: nothing is downloaded")
    else:
        yield Finding(OK, "offline", "no: a run downloads a hub model that is not in the cache")
    state = "" if network.cache.is_dir() else " (not there yet)"
    yield Finding(OK, "hub cache", f"{network.cache}{state}")
    for model in facts.models:
        if model.checkpoint.is_from_hub:
            is_cached = model.checkpoint.folder is not None
            told = "in the cache" if is_cached else "not in the cache"
            yield Finding(OK, str(model.role), f"{model.checkpoint.source}: {told}")
