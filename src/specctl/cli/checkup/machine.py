"""Processors and memory of this machine, and where a model would be put on it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specctl.errors import UsageError

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class GPU:
    """One GPU that torch can use."""

    device: str
    name: str
    free_bytes: int
    total_bytes: int
    has_bfloat16: bool = True


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to compute on; `torch_fault` if torch cannot be imported."""

    cpu: str
    cores: int
    free_bytes: int | None
    total_bytes: int | None
    gpus: tuple[GPU, ...] = ()
    why_no_gpu: str = ""
    torch_fault: str = ""

    def free_on(self, device: str) -> int | None:
        """Free memory of a device, if it is known."""
        return next((g.free_bytes for g in self.gpus if g.device == device), self.free_bytes)

    def gpu(self, device: str) -> GPU | None:
        """The GPU of this name."""
        return next((gpu for gpu in self.gpus if gpu.device == device), None)


@dataclass(frozen=True, slots=True)
class Placing:
    """Where one model would run and in which precision; `fault` if it cannot."""

    device: str
    dtype: str
    fault: str = ""


def read_machine() -> Machine:
    """Ask the system, and torch for GPUs."""
    free, total = _memory()
    cpu, cores = _cpu_name(), _cores()
    try:
        import torch
    except (ImportError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return Machine(cpu, cores, free, total, torch_fault=reason)
    gpus = tuple(_gpu(torch, index) for index in range(torch.cuda.device_count()))
    return Machine(cpu, cores, free, total, gpus, "" if gpus else _why_no_gpu(torch))


def choose(device: str, dtype: str, stored_dtype: str | None, machine: Machine) -> Placing:
    """What `specctl.models.network.place` chooses, without importing it."""
    if dtype != "auto" and dtype not in DTYPE_BYTES:
        raise UsageError(f"unknown dtype {dtype!r}", hint="use auto, " + ", ".join(DTYPE_BYTES))
    where = ("cuda" if machine.gpus else "cpu") if device == "auto" else device
    where = "cuda:0" if where == "cuda" else where
    if dtype == "auto" and where == "cpu":
        dtype = "float32"
    elif dtype == "auto":
        dtype = "float16" if stored_dtype == "float16" else "bfloat16"
    if where == "cpu" or machine.gpu(where):
        return Placing(where, dtype)
    return Placing(where, dtype, f"the device {device!r} cannot be used on this machine")


def _gpu(torch: Any, index: int) -> GPU:
    free, total = torch.cuda.mem_get_info(index)
    has_bfloat16 = torch.cuda.get_device_capability(index) >= (8, 0)
    return GPU(f"cuda:{index}", torch.cuda.get_device_name(index), free, total, has_bfloat16)


def _why_no_gpu(torch: Any) -> str:
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} was built without GPU support"
    return f"torch {torch.__version__} could use one, but no driver or device answers"


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_name() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> tuple[int | None, int | None]:
    """Free and total memory, no more than the container that this runs in may have."""
    values = {}
    for line in _lines(Path("/proc/meminfo")):
        name, _, rest = line.partition(":")
        values[name] = int(rest.split()[0]) * 1024
    free, total = values.get("MemAvailable"), values.get("MemTotal")
    group = Path("/sys/fs/cgroup")
    limit, used = _number(group / "memory.max"), _number(group / "memory.current")
    if free is None or total is None or limit is None or used is None:
        return free, total
    return min(free, max(0, limit - used)), min(total, limit)


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
