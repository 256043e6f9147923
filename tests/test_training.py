"""The recipe of the bundled pair: the world, the texts, resuming, and the exported checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer

from specctl.bundled.training import world
from specctl.bundled.training.batches import Batch, Shape, scene_rng
from specctl.bundled.training.models import (
    BUNDLED,
    ROLES,
    build_model,
    export,
    image_processor,
    load,
)
from specctl.bundled.training.play import Player, crop, draft, planned_boxes, verify
from specctl.bundled.training.prompts import (
    VIEW_TOKENS,
    asked,
    drafter_answer,
    drafter_plan,
    prefix,
    preset,
    verifier_dialogue,
)
from specctl.bundled.training.questions import KINDS, Question, ask
from specctl.bundled.training.samples import write_samples
from specctl.bundled.training.tokenizer import train_tokenizer
from specctl.bundled.training.train import Recipe, Trainer

RECIPE = Recipe(steps=4, decay=2, scenes=3, questions=4, warmup=1)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums are repeatable to the bit on one thread only."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _question(kind: str) -> tuple[world.Scene, Question]:
    for seed in range(1000):
        rng = scene_rng("dev", seed)
        scene = world.draw_scene(rng, 3, 5)
        question = ask(rng, scene, kind)
        if question is not None:
            return scene, question
    raise AssertionError(kind)


def test_small_objects_are_at_most_three_overview_pixels_across() -> None:
    for seed in range(200):
        for thing in world.draw_scene(scene_rng("dev", seed)).small():
            assert 2 * thing.reach * 112 / world.FRAME < 3.1


def test_every_object_lies_inside_its_cell_and_small_ones_inside_their_sub_cell() -> None:
    for seed in range(200):
        for thing in world.draw_scene(scene_rng("dev", seed)).things:
            left, top, right, bottom = world.cell_box(thing.cell, world.FRAME)
            assert left <= thing.x - thing.reach < thing.x + thing.reach <= right
            assert top <= thing.y - thing.reach < thing.y + thing.reach <= bottom
            if not thing.large:
                column = int((thing.x - left) // world.SUBCELL)
                row = int((thing.y - top) // world.SUBCELL)
                assert thing.crop_token == world.GRID * row + column


@pytest.mark.parametrize("size", world.CANVAS_SIZES)
def test_the_two_frames_name_the_same_crop(size: int) -> None:
    image = world.Image.new("RGB", (size, size))
    for cell in range(world.GRID**2):
        thousandths = world.cell_box(cell, 1000)
        exact = tuple(round(value * size / 1000) for value in thousandths)
        view = crop(image, world.cell_box(cell, 112))
        assert view is not None
        assert view.size == (size // 4, size // 4)
        assert exact == world.cell_box(cell, size)


@pytest.mark.parametrize("kind", KINDS)
def test_dialogues_are_tokenised_as_the_runtime_does(kind: str) -> None:
    tokenizer = train_tokenizer()
    _, question = _question(kind)
    for role, instruction, dialogue in (
        ("drafter", "answer", drafter_answer(question)),
        ("drafter", "plan", drafter_plan(question)),
        ("verifier", "instruction", verifier_dialogue(question)),
    ):
        prompt = asked(role, question.text, preset()[role][instruction])
        assert dialogue.text.startswith(prompt)
        reply = dialogue.text[len(prompt) :]
        split = [tokenizer.encode(part, add_special_tokens=False) for part in (prompt, reply)]
        whole = tokenizer.encode(dialogue.text, add_special_tokens=False)
        assert split[0] + split[1] == whole
        for _, at in dialogue.keys:
            assert dialogue.text[at] not in " \n"


def test_the_chat_template_renders_the_trained_prompt() -> None:
    tokenizer = train_tokenizer()
    text = preset()["verifier"]
    messages = [
        {"role": "system", "content": [{"type": "text", "text": text["system"]}]},
        {
            "role": "user",
            "content": [
                {"type": "image"},
                {"type": "text", "text": "Is there a red star?" + text["instruction"]},
            ],
        },
    ]
    rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    expected = prefix("verifier") + asked("verifier", "Is there a red star?", text["instruction"])
    assert rendered.replace("<|image_pad|>", "<|image_pad|>" * VIEW_TOKENS) == expected


def test_any_text_survives_the_tokenizer() -> None:
    tokenizer = train_tokenizer()
    text = "Où est l'étoile ? 星はどこ\n\n  <b>\t🙂"
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def _reference(trainer: Trainer, batch: Batch) -> float:
    """The mean loss on the learnt tokens by plain forward passes over whole dialogues."""
    model = build_model(trainer.role, train_tokenizer())
    model.load_state_dict(trainer.model.state_dict())
    model.eval()
    side = trainer.layout.view // trainer.layout.patch
    losses, weights = [], []
    for group in batch.groups:
        crops = group.crops.tolist()
        for row in range(len(group.scene)):
            branch = group.ids[row, : int(group.weights[row].nonzero().max()) + 1]
            images = int((branch == trainer.batcher.image_token).sum()) // VIEW_TOKENS
            taken, crops = crops[:images], crops[images:]
            views = batch.pixels[[int(group.scene[row]), *(batch.scenes + k for k in taken)]]
            patch = views.shape[-1] // 3
            frames = views.reshape(-1, 3, 1, patch).expand(-1, -1, 2, -1).flatten(1)
            ids = torch.cat([trainer.prefix_ids, branch])[None]
            with torch.no_grad():
                logits = model(
                    input_ids=ids,
                    pixel_values=frames,
                    image_grid_thw=torch.tensor([[1, side, side]] * len(views)),
                    mm_token_type_ids=(ids == trainer.batcher.image_token).int(),
                ).logits[0, len(trainer.prefix_ids) : -1]
            loss = torch.nn.functional.cross_entropy(logits, branch[1:], reduction="none")
            losses.append(loss)
            weights.append(group.weights[row, 1 : len(branch)])
    weight = torch.cat(weights)
    return float((torch.cat(losses) * weight).sum() / weight.sum())


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_the_training_shortcuts_equal_plain_forward_passes(role: str) -> None:
    recipe = Recipe(steps=1, decay=1, scenes=2, questions=5, hint=0.0, seen=0.0)
    trainer = Trainer(role, train_tokenizer(), recipe)
    batch = trainer.batcher.batch(7, Shape(2, 5))
    with torch.no_grad():
        loss, _ = trainer.loss(batch)
    assert float(loss) == pytest.approx(_reference(trainer, batch), abs=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("role", ROLES)
def test_an_interrupted_run_ends_with_the_same_weights(role: str, tmp_path: Path) -> None:
    tokenizer = train_tokenizer()
    straight = Trainer(role, tokenizer, RECIPE)
    for _ in range(4):
        straight.train_step()
    interrupted = Trainer(role, tokenizer, RECIPE)
    for _ in range(2):
        interrupted.train_step()
    interrupted.save(tmp_path / "state.pt")
    resumed = Trainer(role, tokenizer, RECIPE)
    resumed.restore(tmp_path / "state.pt")
    for _ in range(2):
        resumed.train_step()
    for name, tensor in straight.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


@pytest.mark.slow
def test_an_exported_pair_loads_and_answers(tmp_path: Path) -> None:
    tokenizer = train_tokenizer()
    for role in ROLES:
        torch.manual_seed(0)
        model = build_model(role, tokenizer)
        export(role, model, tokenizer, tmp_path / role)
        export(role, model, tokenizer, tmp_path / role)
        loaded = load(tmp_path / role)
        for name, tensor in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], tensor.half().float()), name
        encoded = AutoTokenizer.from_pretrained(tmp_path / role)("user\n")["input_ids"]
        assert encoded == tokenizer("user\n")["input_ids"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(ROLES)
    scene, question = _question("shape-small")
    images = [world.render(scene)]
    drafter, verifier = Player(tmp_path / "drafter"), Player(tmp_path / "verifier")
    [reply] = draft(drafter, [question.text], images, "answer")
    assert len(reply.separability) <= preset()["drafter"]["max_answer_tokens"]
    [loop] = verify(verifier, [question.text], images)
    assert loop.replies


@pytest.mark.parametrize("role", ROLES)
def test_the_bundled_checkpoint_is_of_this_recipe(role: str) -> None:
    folder = BUNDLED / role
    assert AutoConfig.from_pretrained(folder).tie_word_embeddings
    processor = AutoImageProcessor.from_pretrained(folder)
    assert processor.to_dict()["size"] == image_processor(role).to_dict()["size"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.get_vocab() == train_tokenizer().get_vocab()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 6_000_000


@pytest.mark.slow
def test_the_bundled_pair_reads_what_it_should() -> None:
    scenes = [_question(kind) for kind in ("shape-large", "shape-small")]
    images = [world.render(scene) for scene, _ in scenes]
    texts = [question.text for _, question in scenes]
    plans = draft(Player(BUNDLED / "drafter"), texts, images, "plan")
    loops = verify(Player(BUNDLED / "verifier"), texts, images)
    assert [loop.answer for loop in loops] == [question.answer for _, question in scenes]
    assert [len(loop.boxes) for loop in loops] == [0, 1]
    assert planned_boxes(plans[0].text) == []
    assert planned_boxes(plans[1].text) == [world.cell_box(scenes[1][1].zooms[0].cell, 1000)]


def test_samples_are_the_same_every_time(tmp_path: Path) -> None:
    first = write_samples(tmp_path / "a")
    second = write_samples(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    names = sorted(path.name for path in first.parent.iterdir())
    assert names == sorted(path.name for path in second.parent.iterdir())
    for name in names:
        assert (first.parent / name).read_bytes() == (second.parent / name).read_bytes()
