"""`specctl doctor`: what it finds, what it calls it, and what it says to do.

`UPDATE_GOLDEN=1 pytest tests/test_doctor.py` rewrites the golden reports; look at them first.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_runs import Ran, invoke
from specctl.cli.checkup.configuration import Configuration, Network, Origin
from specctl.cli.checkup.facts import Facts, Fit, ModelFacts
from specctl.cli.checkup.machine import DTYPE_BYTES, GPU, Machine, Placing, choose, read_machine
from specctl.cli.checkup.next_step import next_step
from specctl.cli.checkup.report import judge, parameters, size
from specctl.cli.checkup.software import Extra, Library, Software, read_software
from specctl.errors import ModelError
from specctl.models.inspect import FAMILIES, Checkpoint, Fault, inspect_checkpoint
from specctl.presets import load_preset
from specctl.render.doctor_view import Finding, Mark, Section, count, doctor_report
from specctl.types import Role

GOLDEN = Path(__file__).parent / "golden"
SOURCES = Path(__file__).parent.parent / "src"
GIB = 2**30
CONFIG = {
    "model_type": "qwen2_5_vl",
    "torch_dtype": "bfloat16",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
SMALL = Machine("Some CPU", 8, 4 * GIB, 16 * GIB, why_no_gpu="torch 2.13.0 sees none")
LARGE = Machine(
    "Some CPU",
    16,
    100 * GIB,
    128 * GIB,
    (GPU("cuda:0", "NVIDIA H200", 130 * GIB, 139 * GIB), GPU("cuda:1", "Old", GIB, 8 * GIB, False)),
)


@pytest.fixture
def small(house: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder on a small machine with nothing in the hub's cache."""
    monkeypatch.setattr("specctl.cli.checkup.facts.read_machine", lambda: SMALL)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(house / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    return house


def write_shard(path: Path, **shapes: list[int]) -> None:
    """A safetensors file of zeros in bfloat16 that takes no room on the disk."""
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * shape[0] * shape[1]
        key = name.replace("__", ".")
        header[key] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def write_checkpoint(folder: Path, **changes: Any) -> Path:
    """What a release looks like from outside: two shards of a million parameters each."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    weights = {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}
    for name, shard in weights.items():
        write_shard(folder / shard, **{name: [1000, 1000]})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    for name in ("tokenizer.json", "preprocessor_config.json", "chat_template.jinja"):
        (folder / name).write_text("{}")
    return folder


def examine(*arguments: str, **environment: str) -> tuple[Ran, dict[str, Any]]:
    """Run `specctl doctor --json`."""
    ran = invoke(["doctor", "--json", *arguments], **environment)
    return ran, json.loads(ran.stdout)


def findings(record: dict[str, Any], section: str, mark: str = "problem") -> dict[str, str]:
    """Name and text of the findings of a section with this mark."""
    found = next((s["findings"] for s in record["sections"] if s["title"] == section), [])
    return {f["name"]: f["text"] for f in found if f["mark"] == mark}


def fault_of(folder: Path) -> Fault:
    faults = inspect_checkpoint(str(folder)).faults
    assert len(faults) == 1
    return faults[0]


def test_the_bundled_pair_is_well(house: Path) -> None:
    ran = invoke(["doctor"])
    assert (ran.code, ran.stderr) == (0, "")
    assert "problem" not in ran.stdout
    assert "\x1b" not in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("next: ")
    for said in ("Qwen3-VL (qwen3_vl)", "1.36 million", "float32 on cpu", "torch ", "hub cache"):
        assert said in ran.stdout


@pytest.mark.parametrize("force", [False, True])
def test_a_pipe_gets_no_escapes(small: Path, force: bool) -> None:
    ran = invoke(["doctor", "--format", "rich"], **({"FORCE_COLOR": "1"} if force else {}))
    assert "\x1b" not in ran.stdout
    assert "\r" not in ran.stdout


def test_the_next_command_can_be_run_as_it_is(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SOURCES.parent)  # where the sample pictures are
    command = invoke(["doctor", "--dtype", "float32"]).stdout.splitlines()[-1]
    words = shlex.split(command.removeprefix("next: "))
    assert words[-2:] == ["--dtype", "float32"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=250, env=environment)
    assert (done.returncode, done.stdout) == (0, "square\n")


def test_a_release_is_measured_without_reading_it(small: Path) -> None:
    write_checkpoint(small / "model")
    ran, record = examine("--verifier", "model")
    assert ran.code == 0
    model = record["models"]["verifier"]
    assert (model["num_parameters"], model["weight_bytes"]) == (2_000_000, 8_000_000)
    assert model["kv_bytes_per_1000_tokens"] == 1000 * 2 * 28 * 4 * 128 * 4
    assert (model["family"], model["is_found"], model["faults"]) == ("qwen2_5_vl", True, [])
    assert record["schema"] == "specctl.doctor/1"
    assert record["memory"][0]["fits"] is True


def test_a_tied_head_counts_once(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", tie_word_embeddings=True)
    write_shard(folder / "model.safetensors", embedding=[10, 10], lm_head__weight=[10, 10])
    assert inspect_checkpoint(str(folder)).num_parameters == 100


def test_a_missing_folder(small: Path) -> None:
    ran, record = examine("--drafter", "./nowhere")
    assert ran.code == 4
    assert "no model folder" in findings(record, "drafter")["source"]
    assert record["next"].endswith("doctor --drafter bundled:drafter")
    assert record["models"]["drafter"]["is_found"] is False


def test_an_absent_shard_is_named(small: Path) -> None:
    folder = write_checkpoint(small / "model")
    (folder / "model-2-of-2.safetensors").unlink()
    ran, record = examine("--verifier", "model")
    assert ran.code == 4
    text = findings(record, "verifier")["weights"]
    assert text == "1 of 2 shards are absent: model-2-of-2.safetensors"
    assert record["models"]["verifier"]["num_parameters"] is None
    assert "not known" in findings(record, "memory", "warning")["cpu"]


def test_pickled_weights_only(small: Path) -> None:
    folder = write_checkpoint(small / "model")
    for path in folder.glob("model*"):
        path.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"")
    ran, record = examine("--verifier", "model")
    assert ran.code == 4
    assert "only pickled ones" in findings(record, "verifier")["weights"]


def test_another_family(small: Path) -> None:
    write_checkpoint(small / "model", model_type="llama")
    ran, record = examine("--verifier", "model")
    assert ran.code == 4
    assert "'llama'" in findings(record, "verifier")["family"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("config.json", "model.config"),
        ("tokenizer.json", "model.tokenizer"),
        ("preprocessor_config.json", "model.image_processor"),
        ("chat_template.jinja", "model.chat_template"),
        ("model.safetensors.index.json", "model.weights_missing"),
    ],
)
def test_what_lies_beside_the_weights(tmp_path: Path, name: str, code: str) -> None:
    folder = write_checkpoint(tmp_path / "model")
    (folder / name).unlink()
    fault = fault_of(folder)
    assert (fault.code, fault.is_absent) == (code, True)
    assert name in fault.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git-lfs"),
        (b"", "cut short"),
        (b"\x10\0\0\0\0\0\0\0{" + b" " * 20, "header"),
        (b'\x09\0\0\0\0\0\0\0{"a": {}}', "header"),
        (b"\x02\0\0\0\0\0\0\0[]", "header"),
        (b"\x02\0\0\0\0\0\0\0{}more", "damaged"),
    ],
)
def test_damaged_weights(tmp_path: Path, content: bytes, words: str) -> None:
    folder = write_checkpoint(tmp_path / "model")
    (folder / "model-2-of-2.safetensors").write_bytes(content)
    fault = fault_of(folder)
    assert fault.code == "model.weights"
    assert words in fault.message


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model_type": 3}'])
def test_a_configuration_that_is_none(tmp_path: Path, content: str) -> None:
    folder = write_checkpoint(tmp_path / "model")
    (folder / "config.json").write_text(content)
    assert fault_of(folder).code in ("model.config", "model.family")


def test_too_little_memory(small: Path) -> None:
    folder = write_checkpoint(small / "model")
    write_shard(folder / "model-2-of-2.safetensors", b=[100_000, 20_000])
    ran, record = examine("--verifier", "model")
    assert ran.code == 4
    assert "does not fit: 7.46 GiB" in findings(record, "memory")["cpu"]
    assert record["next"].endswith("doctor --verifier model --dtype bfloat16")
    ran, record = examine("--verifier", "model", "--dtype", "bfloat16")
    assert ran.code == 0
    assert record["memory"][0]["fits"] is True


def test_memory_is_added_up_for_each_device() -> None:
    one = facts().models[0]
    both = replace(facts(), models=(one, replace(one, role=Role.VERIFIER)))
    (fit,) = both.fits
    assert fit.weight_bytes == 2 * (one.weight_bytes or 0)
    apart = replace(one, placing=Placing("cuda:1", "bfloat16"))
    fits = replace(facts(), models=(one, apart)).fits
    assert [(fit.device, fit.fits) for fit in fits] == [("cuda:0", True), ("cuda:1", False)]


@pytest.mark.parametrize(
    ("free", "mark"),
    [(None, "warning"), (GIB - 1, "problem"), (GIB + 4096, "warning"), (90 * GIB, "ok")],
)
def test_how_a_fit_is_called(free: int | None, mark: str) -> None:
    machine = replace(SMALL, free_bytes=free)
    model = ModelFacts(
        Role.DRAFTER,
        Checkpoint("m", num_parameters=GIB // 2, kv_values_per_token=256),
        Placing("cpu", "float16"),
    )
    sections = judge(replace(facts(), machine=machine, models=(model,)))
    memory = next(section for section in sections if section.title == "memory")
    assert [str(finding.mark) for finding in memory.findings] == [mark]


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        ([], {"SPECCTL_DEVISE": "cpu"}),
        (["--preset", "nothing"], {}),
        (["--dtype", "float8"], {}),
    ],
)
def test_settings_that_mean_nothing(
    small: Path, arguments: list[str], environment: dict[str, str]
) -> None:
    ran = invoke(["doctor", *arguments], **environment)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")


def test_an_unknown_setting_in_a_file(small: Path) -> None:
    (small / "specctl.toml").write_text('devise = "cpu"\n')
    ran = invoke(["doctor"])
    assert ran.code == 2
    assert "did you mean device?" in ran.stderr


def test_every_setting_tells_its_origin(small: Path) -> None:
    (small / "specctl.toml").write_text('dtype = "bfloat16"\ntop-k = 16\n')
    ran, record = examine("--device", "cpu", SPECCTL_THRESHOLD="0.9", SPECCTL_OFFLINE="1")
    assert ran.code == 0
    told = {o["name"]: (o["value"], o["where"]) for o in record["settings"]["origins"]}
    file = str(small / "specctl.toml")
    assert told.pop("json") == ("True", "flag")
    assert told == {
        "device": ("cpu", "flag"),
        "dtype": ("bfloat16", file),
        "top_k": ("16", file),
        "threshold": ("0.9", "SPECCTL_THRESHOLD"),
        "offline": ("True", "SPECCTL_OFFLINE"),
    }
    assert record["settings"]["files"] == [file]
    assert record["settings"]["variables"] == ["SPECCTL_OFFLINE", "SPECCTL_THRESHOLD"]
    assert "half precision is slow" in findings(record, "drafter", "warning")["device"]


def test_a_device_that_is_not_there(small: Path) -> None:
    ran, record = examine("--verifier-device", "cuda:3", "--offline")
    assert ran.code == 4
    assert "cuda:3" in findings(record, "verifier")["device"]
    assert not findings(record, "drafter")
    assert record["next"].endswith("doctor --verifier-device auto --offline")


@pytest.mark.parametrize("offline", [False, True])
def test_a_hub_id_is_looked_up_in_the_cache_only(small: Path, offline: bool) -> None:
    flags = ["--offline"] if offline else []
    ran, record = examine("--verifier", "nobody/nothing", *flags)
    found = findings(record, "verifier", "problem" if offline else "warning")
    assert ran.code == (4 if offline else 0)
    assert "nor in the local model cache" in found["source"]
    assert findings(record, "network", "ok")["verifier"] == "nobody/nothing: not in the cache"
    assert ("download nobody/nothing" in record["next"]) is offline


def test_a_hub_id_in_the_cache(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint(small / "model")

    def snapshot_download(source: str, **settings: Any) -> str:
        assert settings["local_files_only"]
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    ran, record = examine("--verifier", "owner/model", "--offline")
    assert ran.code == 0
    assert findings(record, "network", "ok")["verifier"] == "owner/model: in the cache"


def test_torch_that_cannot_be_imported(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    broken = read_machine()
    assert broken.torch_fault
    monkeypatch.setattr("specctl.cli.checkup.facts.read_machine", lambda: broken)
    ran, record = examine()
    assert ran.code == 4
    assert "cannot be imported" in findings(record, "devices")["torch"]
    assert "--force-reinstall" in record["next"]


def test_libraries_against_their_ranges() -> None:
    found = {library.name: library for library in read_software().libraries}
    for name in ("Python", "torch", "transformers", "tokenizers", "pillow"):
        assert found[name].is_in_range, name
        assert found[name].wanted
    assert not Library("torch", "2.14.0", ">=2.9,<2.14").is_in_range
    assert Library("torch", "2.13.0+cpu", ">=2.9,<2.14").is_in_range
    assert not Library("torch", None).is_in_range


def test_an_installed_copy_is_asked_for_its_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = (
        "Metadata-Version: 2.4\nName: specctl\nVersion: 0.1.0\nRequires-Python: >=3.10\n"
        "Requires-Dist: torch<2.14,>=2.9\nRequires-Dist: tomli>=2; python_version < '3.0'\n"
        "Requires-Dist: no-such-library>=1; extra == 'ocr'\nProvides-Extra: ocr\n"
    )
    (tmp_path / "specctl-0.1.0.dist-info").mkdir()
    (tmp_path / "specctl-0.1.0.dist-info" / "METADATA").write_text(about)
    monkeypatch.syspath_prepend(str(tmp_path))
    software = read_software()
    assert software.is_installed
    assert [library.name for library in software.libraries] == ["Python", "torch", "tokenizers"]
    assert software.libraries[1].wanted == ">=2.9,<2.14"
    assert software.extras == (Extra("ocr", (Library("no-such-library", None, ">=1"),)),)


def test_a_library_that_is_not_there_comes_first() -> None:
    software = replace(facts().software, libraries=(Library("rich", None, ">=14"),))
    lacking = replace(facts(), software=software)
    assert count(judge(lacking)[:1], Mark.PROBLEM) == 1
    assert next_step(lacking).endswith("-m pip install 'rich>=14'")


@pytest.mark.parametrize("stored", ["float16", "bfloat16", None])
@pytest.mark.parametrize("dtype", ["auto", *DTYPE_BYTES])
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_placing_is_what_the_runtime_does(device: str, dtype: str, stored: str | None) -> None:
    import torch

    from specctl.models.network import DTYPES, place

    config = SimpleNamespace(dtype=stored and getattr(torch, stored), text_config=None)
    if stored is None:
        config.text_config = SimpleNamespace()
    done, chosen = place(device, dtype, config), choose(device, dtype, stored, read_machine())
    assert chosen.dtype == done.dtype_name
    assert chosen.device.split(":")[0] == done.device.type
    assert {name: DTYPES[name].itemsize for name in DTYPES} == DTYPE_BYTES


@pytest.mark.parametrize("name", ["drafter", "verifier"])
def test_facts_are_those_of_the_loaded_model(name: str) -> None:
    from specctl.models import checkpoint
    from specctl.models.checkpoint import load_model

    assert FAMILIES == checkpoint.FAMILIES
    found = inspect_checkpoint(f"bundled:{name}")
    parts = load_model(f"bundled:{name}", role_name=name, device="cpu")._parts
    assert found.num_parameters == sum(p.numel() for p in parts.network.parameters())
    shape = parts.kv_shape
    assert found.kv_values_per_token == 2 * shape.layers * shape.kv_heads * shape.head_dim
    assert (found.family, found.faults) == (parts.info.family, ())


BUNDLED_FILES = sorted(path.name for path in (SOURCES / "specctl/bundled/drafter").iterdir())


@pytest.mark.parametrize("name", BUNDLED_FILES)
def test_a_file_is_missed_when_the_loader_misses_it(tmp_path: Path, name: str) -> None:
    from specctl.models.checkpoint import load_model

    folder = tmp_path / "model"
    shutil.copytree(SOURCES / "specctl/bundled/drafter", folder)
    (folder / name).unlink()
    codes = []
    try:
        load_model(str(folder), role_name="drafter", device="cpu")
    except ModelError as error:
        codes = [error.code]
    assert [fault.code for fault in inspect_checkpoint(str(folder)).faults] == codes


@pytest.mark.parametrize(
    ("device", "dtype", "stored", "expected"),
    [
        ("auto", "auto", "bfloat16", ("cuda:0", "bfloat16", True)),
        ("cuda", "auto", "float16", ("cuda:0", "float16", True)),
        ("cuda:1", "float32", "float16", ("cuda:1", "float32", True)),
        ("cpu", "auto", "float16", ("cpu", "float32", True)),
        ("cuda:2", "auto", None, ("cuda:2", "bfloat16", False)),
    ],
)
def test_placing_on_gpus(
    device: str, dtype: str, stored: str | None, expected: tuple[str, str, bool]
) -> None:
    placing = choose(device, dtype, stored, LARGE)
    assert (placing.device, placing.dtype, not placing.fault) == expected


def test_a_gpu_s_weights_need_room_in_main_memory_too() -> None:
    machine = replace(LARGE, free_bytes=GIB)
    sections = judge(replace(facts(), machine=machine))
    memory = next(section for section in sections if section.title == "memory")
    assert (memory.findings[-1].name, memory.findings[-1].mark) == ("loading", Mark.WARNING)


def test_models_are_inspected_without_torch() -> None:
    code = (
        "import sys\n"
        "from specctl.models.inspect import inspect_checkpoint\n"
        "assert not inspect_checkpoint('bundled:drafter').faults\n"
        "assert not {'torch', 'transformers', 'safetensors'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


def test_units() -> None:
    assert [size(n) for n in (None, 5_431_000, 999 * 2**20, 16_600_000_000)] == [
        "not known",
        "5.18 MiB",
        "999 MiB",
        "15.5 GiB",
    ]
    assert [parameters(n) for n in (1_357_000, 8_290_000_000)] == ["1.36 million", "8.29 billion"]


def facts() -> Facts:
    """A made-up machine with a drafter that is well and a verifier that is not."""
    drafter = Checkpoint(
        "Qwen/Qwen3-VL-2B-Instruct",
        is_from_hub=True,
        folder=Path("/models/qwen3-vl-2b"),
        family="qwen3_vl",
        stored_dtype="bfloat16",
        num_parameters=2_127_532_032,
        kv_values_per_token=57_344,
    )
    faults = (
        Fault("model.weights_missing", "1 of 4 shards are absent: model-4-of-4.safetensors"),
        Fault("model.chat_template", "chat_template.jinja is absent", "copy it from the release"),
    )
    verifier = Checkpoint(
        "models/deepeyes", False, Path("models/deepeyes"), "qwen2_5_vl", faults=faults
    )
    return Facts(
        Software(
            "0.1.0",
            True,
            (
                Library("Python", "3.11.7", ">=3.10"),
                Library("torch", "2.14.1", ">=2.9,<2.14"),
                Library("rich", "15.0.0", ">=14"),
            ),
            (Extra("calibrate", (Library("scipy", None, ">=1.14"),)),),
        ),
        LARGE,
        load_preset("bundled"),
        (
            ModelFacts(Role.DRAFTER, drafter, Placing("cuda:0", "bfloat16")),
            ModelFacts(Role.VERIFIER, verifier, Placing("cuda:1", "bfloat16"), "verifier_device"),
        ),
        Configuration(
            (Path("/home/me/specctl/config.toml"),),
            (Path("/home/me/specctl/config.toml"), Path("/home/me/specctl.toml")),
            ("SPECCTL_VERIFIER",),
            (
                Origin("drafter", "Qwen/Qwen3-VL-2B-Instruct", "flag"),
                Origin("verifier_device", "cuda:1", "/home/me/specctl/config.toml"),
                Origin("verifier", "models/deepeyes", "SPECCTL_VERIFIER"),
            ),
        ),
        Network("the offline setting", Path("/nowhere/huggingface/hub")),
    )


@pytest.mark.parametrize("width", [100, 60])
def test_the_report_looks_as_it_did(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    rows = doctor_report(judge(facts()), next_step(facts()), width)
    text = "".join(f"{row.plain.rstrip()}\n" for row in rows)
    path = GOLDEN / f"doctor_{width}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")
    assert all(row.cell_len <= width for row in rows[:-1])


def test_what_others_wrote_cannot_draw() -> None:
    finding = Finding(Mark.OK, "source", "a\x1b[31mb\nc [bold]d")
    rows = doctor_report([Section("s", (finding,))], "specctl run", 100)
    assert "\x1b" not in rows[1].plain
    assert "[bold]d" in rows[1].plain


def test_what_is_not_known_is_not_made_up() -> None:
    fit = Fit("cpu", None, None, 5)
    assert (fit.fits, fit.room_tokens) == (None, None)
