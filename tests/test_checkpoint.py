"""Loading: what works, and one clear line for everything that does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from specctl.errors import ModelError, SpecctlError, UsageError
from specctl.models.checkpoint import load_model
from specctl.models.decoding import Decoding
from specctl.models.interface import DecodeWork
from specctl.models.segments import Text
from specctl.models.source import WHOLE_FILE_BYTES, weights_sha256
from tiny_checkpoints import FAMILIES, save_checkpoint


@pytest.fixture(params=FAMILIES)
def folder(request, tmp_path):
    return save_checkpoint(tmp_path / request.param, request.param)


@pytest.fixture
def one_folder(tmp_path):
    return save_checkpoint(tmp_path / "model", "qwen3_vl")


def load(folder, **settings):
    return load_model(str(folder), role_name="drafter", **{"device": "cpu", **settings})


def refusal(folder, **settings) -> SpecctlError:
    with pytest.raises(SpecctlError) as caught:
        load(folder, **settings)
    assert "\n" not in caught.value.message
    return caught.value


def first_tokens(model):
    session, decoding = model.open(), Decoding(5)
    model.prompt([(session, model.chat.opening("Answer.", (Text("What colour?"),)))])
    while not decoding.done:
        model.step([DecodeWork(session, decoding)])
    return [token.id for token in decoding.tokens]


def edit_json(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_is_loaded_says_what_it_is(folder):
    model = load(folder)
    info = model.info
    assert (info.id, info.family) == (str(folder), folder.name)
    assert (info.dtype, info.device) == ("float32", "cpu")
    assert info.weights_sha256 == weights_sha256(folder)
    assert first_tokens(model)


def test_loading_is_silent(one_folder, capfd):
    capfd.readouterr()
    first_tokens(load(one_folder))
    assert capfd.readouterr() == ("", "")


def test_half_precision_files_run_in_float32_on_a_cpu(folder):
    path = folder / "model.safetensors"
    weights = {name: tensor.half() for name, tensor in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})
    edit_json(folder / "config.json", dtype="float16")
    assert load(folder).info.dtype == "float32"
    assert load(folder, dtype="bfloat16").info.dtype == "bfloat16"


def test_tied_embeddings_need_no_head_of_their_own(folder):
    path, config = folder / "model.safetensors", folder / "config.json"
    weights = load_file(path)
    embedding = next(t for name, t in weights.items() if "embed_tokens" in name)
    weights["lm_head.weight"] = embedding.clone()
    save_file(weights, path, metadata={"format": "pt"})
    untied = first_tokens(load(folder))
    del weights["lm_head.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    settings = json.loads(config.read_text())
    edit_json(
        config,
        tie_word_embeddings=True,
        text_config={**settings["text_config"], "tie_word_embeddings": True},
    )
    assert first_tokens(load(folder)) == untied


def test_every_file_s_end_of_sequence_counts(one_folder):
    (one_folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 8]}))
    ends = load(one_folder)._parts.end_ids
    assert {7, 8} < ends
    assert len(ends) == 3


def test_a_template_may_lie_beside_the_tokenizer(one_folder):
    template = (one_folder / "chat_template.jinja").read_text()
    chat = load(one_folder).chat
    (one_folder / "chat_template.jinja").unlink()
    error = refusal(one_folder)
    assert error.code == "model.chat_template"
    (one_folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    assert load(one_folder).chat == chat


@pytest.mark.parametrize("offline", [True, False])
def test_hub_ids_come_from_the_cache_unless_the_network_is_allowed(
    one_folder, monkeypatch, offline
):
    asked = {}

    def snapshot_download(source, **settings):
        asked.update(settings, source=source)
        return str(one_folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert load("owner/model", offline=offline).info.id == "owner/model"
    assert (asked["source"], asked["local_files_only"]) == ("owner/model", offline)
    assert not any("bin" in pattern or "py" in pattern for pattern in asked["allow_patterns"])


def test_a_tokenizer_of_another_model_is_refused(one_folder):
    edit_json(one_folder / "config.json", image_token_id=5)
    assert refusal(one_folder).code == "model.tokenizer"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("/nowhere/at/all", "no model folder"),
        ("./nowhere", "no model folder"),
        ("nobody/nothing-at-all", "nor in the local model cache"),
        ("bundled:nothing", "bundled"),
    ],
)
def test_sources_that_lead_nowhere(source, words):
    error = refusal(source)
    assert isinstance(error, ModelError)
    assert error.message.startswith("drafter: ")
    assert words in error.message
    assert error.code.startswith("model.")
    assert error.hint


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("config.json", "model.config"),
        ("model.safetensors", "model.weights_missing"),
        ("tokenizer.json", "model.tokenizer"),
        ("preprocessor_config.json", "model.image_processor"),
        ("chat_template.jinja", "model.chat_template"),
    ],
)
def test_missing_files(one_folder, name, code):
    (one_folder / name).unlink()
    error = refusal(one_folder)
    assert (type(error), error.code) == (ModelError, code)
    assert error.hint
    assert str(one_folder) in error.message


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("config.json", "model.config"),
        ("model.safetensors", "model.weights"),
        ("tokenizer.json", "model.tokenizer"),
        ("preprocessor_config.json", "model.image_processor"),
    ],
)
def test_damaged_files(one_folder, name, code):
    path = one_folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    error = refusal(one_folder)
    assert (type(error), error.code) == (ModelError, code)


def test_weights_that_leave_parameters_unset_are_refused(folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    gone = next(name for name in weights if "layers.1" in name and "mlp" in name)
    del weights[gone]
    save_file(weights, path, metadata={"format": "pt"})
    error = refusal(folder)
    assert error.code == "model.weights"
    assert "unset" in error.message
    assert "layers.1" in error.message


def test_weights_of_another_shape_are_refused(one_folder):
    path = one_folder / "model.safetensors"
    weights = load_file(path)
    name = next(name for name in weights if name.endswith("q_proj.weight"))
    weights[name] = torch.zeros(3, 3)
    save_file(weights, path, metadata={"format": "pt"})
    assert refusal(one_folder).code == "model.weights"


def test_pickled_weights_are_never_loaded(one_folder):
    (one_folder / "model.safetensors").rename(one_folder / "pytorch_model.bin")
    error = refusal(one_folder)
    assert error.code == "model.weights_missing"
    assert "never" in error.hint


def test_other_families_are_named_as_such(one_folder):
    edit_json(one_folder / "config.json", model_type="llama")
    error = refusal(one_folder)
    assert error.code == "model.family"
    assert "llama" in error.message
    assert "Qwen2.5-VL" in error.hint
    assert "Qwen3-VL" in error.hint


def test_remote_code_is_never_run(one_folder, tmp_path):
    (one_folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    edit_json(
        one_folder / "config.json", auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.M"}
    )
    first_tokens(load(one_folder))
    assert not (tmp_path / "ran").exists()


def test_settings_that_mean_nothing(one_folder):
    assert isinstance(refusal(one_folder, dtype="float8"), UsageError)
    assert refusal(one_folder, device="cuda:99").code == "model.device"
    assert refusal(one_folder, device="toaster").code == "model.device"
    assert "top-k" in refusal(one_folder, top_k=100_000).message


def test_weights_have_an_identity(one_folder):
    before = weights_sha256(one_folder)
    assert before == weights_sha256(one_folder)
    path = one_folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert weights_sha256(one_folder) != before


def test_large_shards_count_by_header_and_size(tmp_path):
    header = b'{"a":1}'
    for tail in (0, 1):
        with (tmp_path / "model.safetensors").open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(WHOLE_FILE_BYTES + 1 + tail)
        (tmp_path / f"sum{tail}").write_text(weights_sha256(tmp_path))
    assert (tmp_path / "sum0").read_text() != (tmp_path / "sum1").read_text()


def test_contracts_and_prompts_do_not_import_torch():
    modules = "interface, segments, chat, decoding, layout, encoding, template, source, tokens"
    code = f"""if True:
        import sys
        from specctl.models import {modules}
        print('torch' in sys.modules, 'transformers' in sys.modules)"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("name", ["drafter", "verifier"])
def test_the_bundled_pair_loads_and_decodes(name):
    model = load(f"bundled:{name}")
    assert first_tokens(model) is not None
    assert model.forward_passes > 0
