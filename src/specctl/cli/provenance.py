"""Where measurements come from: this machine, its libraries, the models and settings."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from pathlib import Path

from specctl.cli.profile_task import Task
from specctl.config import Settings
from specctl.engine.pair import Pair
from specctl.journal import versions
from specctl.journal.profile import Provenance
from specctl.presets import Preset

CPU_INFO = Path("/proc/cpuinfo")
WARM_UP_RUNS = 2


def provenance_of(
    task: Task, settings: Settings, preset: Preset, pair: Pair, loading_s: float
) -> Provenance:
    """The block that a report begins with; the models must be loaded."""
    import torch  # loaded with the models

    models = pair.infos()
    on_cuda = sorted({info.device for info in models.values() if info.device.startswith("cuda")})
    return Provenance(
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        versions=versions(),
        platform=platform.platform(),
        processor=processor_name(CPU_INFO),
        num_cpus=os.cpu_count() or 1,
        num_threads=torch.get_num_threads(),
        accelerators=tuple(torch.cuda.get_device_name(device) for device in on_cuda),
        models=models,
        preset=preset.name,
        gate=preset.gate,
        plan=str(settings.plan),
        source=task.source,
        source_sha256=task.source_sha256(),
        limit=task.limit,
        warm_up_runs=WARM_UP_RUNS,
        loading_s=loading_s,
        seed=task.seed,
    )


def processor_name(cpu_info: Path) -> str:
    """The processor's name as Linux tells it, elsewhere what Python knows."""
    try:
        for line in cpu_info.read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
