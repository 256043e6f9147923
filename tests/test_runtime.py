"""The runtime against plain transformers: same tokens and scores, whatever was kept and reused."""

from __future__ import annotations

import numpy as np
import pytest

from reference_model import Reference, noise_image, numbers
from specctl.errors import BudgetError, InputError, ModelError
from specctl.images import Image
from specctl.models.checkpoint import load_model
from specctl.models.decoding import Decoding
from specctl.models.interface import DecodeWork
from specctl.models.layout import mrope_positions
from specctl.models.qwen import QwenVLModel
from specctl.models.segments import Control, Picture, Segments, Text
from specctl.models.session import QwenSession
from specctl.types import StopReason
from tiny_checkpoints import FAMILIES, save_checkpoint

CLOSE = {"rel": 1e-5, "abs": 1e-5}


class Checkpoint:
    def __init__(self, folder, **settings):
        self.folder = folder
        self.reference = Reference(folder)
        self.settings = settings

    def load(self) -> QwenVLModel:
        return load_model(str(self.folder), role_name="drafter", device="cpu", **self.settings)


@pytest.fixture(scope="module", params=FAMILIES)
def checkpoint(request, tmp_path_factory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("tiny") / request.param
    return Checkpoint(save_checkpoint(folder, request.param))


def opening(model: QwenVLModel, *parts: object) -> Segments:
    segments = tuple(Picture(p) if isinstance(p, Image) else Text(str(p)) for p in parts)
    return model.chat.opening("Answer from the picture.", segments)


def decode(model: QwenVLModel, session: QwenSession, limit: int, stop: tuple[str, ...] = ()):
    decoding = Decoding(limit, stop)
    while not decoding.done:
        model.step([DecodeWork(session, decoding)])
    return decoding


def test_a_decoding_ends_at_the_models_length() -> None:
    model = load_model("bundled:drafter", role_name="drafter")
    session = model.open()
    model.prompt([(session, (Text("red " * 1022),))])
    room = model._parts.max_length - session.length
    assert room > 0
    decoding = decode(model, session, room + 50)
    assert decoding.stop_reason is StopReason.EOS or session.length == model._parts.max_length


def check_decoding(reference: Reference, session: QwenSession, decoding: Decoding, images) -> None:
    """Every token and score of a decoding at the session's end, against one full forward pass."""
    num_decoded = len(decoding.tokens)
    start = session.length - num_decoded
    logits = reference.logits(session.ids, images)
    assert session.ids[start:] == [token.id for token in decoding.tokens]
    scores = [*decoding.tokens, *([decoding.end] if decoding.end else [])]
    for score, row in zip(scores, logits[start - 1 :], strict=False):
        assert score.id == reference.best(row)
        assert numbers(score) == pytest.approx(reference.expected_score(row), **CLOSE)


def test_greedy_tokens_equal_generate(checkpoint):
    model = checkpoint.load()
    for seed, images in enumerate(
        ((), (noise_image(90, 60),), (noise_image(40, 99), noise_image(70, 70, 1)))
    ):
        session = model.open()
        model.prompt([(session, opening(model, *images, f"What colour is shape {seed}?"))])
        ids = list(session.ids)
        decoding = decode(model, session, 24)
        assert [t.id for t in decoding.tokens] == checkpoint.reference.generate(ids, images, 24)


def test_every_turn_of_a_zoom_trajectory_equals_a_full_prefill(checkpoint):
    model, session = checkpoint.load(), None
    session = model.open()
    overview, crop, tail = noise_image(120, 80), noise_image(60, 90, 1), noise_image(33, 64, 2)
    images: list[Image] = [overview]
    model.prompt([(session, opening(model, overview, "What colour is the small circle?"))])
    check_decoding(checkpoint.reference, session, decode(model, session, 9), images)
    for image, text in ((crop, "Zoomed in."), (overview, "Once more."), (tail, "")):
        images.append(image)
        model.extend([(session, model.chat.reply((Picture(image), Text(text))))])
        check_decoding(checkpoint.reference, session, decode(model, session, 7), images)


@pytest.mark.parametrize("sizes", [(), ((50, 90),), ((64, 64), (200, 20), (20, 200))])
def test_positions_equal_get_rope_index(checkpoint, sizes):
    model = checkpoint.load()
    images = [noise_image(*size, seed) for seed, size in enumerate(sizes)]
    parts = [part for image in images for part in (image, "and this?")]
    session = model.open()
    model.prompt([(session, opening(model, *parts, "Which?"))])
    ours = mrope_positions(session.spans, 0, session.length)
    assert np.array_equal(ours, checkpoint.reference.positions(session.ids, images)[:, 0].numpy())


def test_ids_equal_the_whole_string_tokenised(checkpoint):
    model, tokenizer = checkpoint.load(), checkpoint.reference.tokenizer
    image = noise_image(90, 60)
    user = [{"type": "image"}, {"type": "text", "text": "What colour is it?"}]
    system = [{"type": "text", "text": "Answer from the picture."}]
    text = tokenizer.apply_chat_template(
        [{"role": "system", "content": system}, {"role": "user", "content": user}],
        tokenize=False,
        add_generation_prompt=True,
    )
    session = model.open()
    model.prompt([(session, opening(model, image, "What colour ", "is it?"))])
    num_image_tokens = session.spans[0].num_tokens
    text = text.replace("<|image_pad|>", "<|image_pad|>" * num_image_tokens)
    assert session.ids == tokenizer.encode(text, add_special_tokens=False)


def test_prompt_reuses_the_shared_prefix_and_nothing_else(checkpoint):
    model, image = checkpoint.load(), noise_image(90, 60)
    session = model.open()
    first = opening(model, image, "What colour is it?\nAnswer.")
    model.prompt([(session, first)])
    alone = decode(model, session, 6)
    for text in ("What colour is it?\nPlan.", "What colour is it?\nAnswer.", "Other question"):
        segments = opening(model, image, text)
        before = model.computed_tokens
        (usage,) = model.prompt([(session, segments)])
        assert usage.cached_tokens + (model.computed_tokens - before) == usage.prompt_tokens
        assert usage.prompt_tokens == session.length
        assert usage.cached_tokens >= session.spans[0].stop
        assert usage.images_encoded == 0
        check_decoding(checkpoint.reference, session, decode(model, session, 6), [image])
    model.prompt([(session, first)])
    assert decode(model, session, 6).tokens == pytest.approx(alone.tokens)


def test_another_image_of_the_same_size_is_never_taken_for_the_same(checkpoint):
    model = checkpoint.load()
    session = model.open()
    for seed in (0, 1):
        image = noise_image(90, 60, seed)
        (usage,) = model.prompt([(session, opening(model, image, "What colour is it?"))])
        assert usage.images_encoded == 1
        assert usage.cached_tokens <= session.spans[0].start
        check_decoding(checkpoint.reference, session, decode(model, session, 4), [image])


def test_each_token_is_computed_once_and_each_image_encoded_once(checkpoint):
    model, image, crop = checkpoint.load(), noise_image(90, 60), noise_image(30, 30, 1)
    session, other = model.open(), model.open()
    (used,) = model.prompt([(session, opening(model, image, "What colour is it?"))])
    assert (model.forward_passes, model.computed_tokens) == (1, used.prompt_tokens)
    assert used.image_tokens == session.spans[0].num_tokens
    decode(model, session, 5)
    for _ in range(2):
        model.extend([(session, model.chat.reply((Picture(crop), Text("Again."))))])
        decode(model, session, 5)
        # The last token decoded waits for what follows it.
        assert model.computed_tokens == session.num_computed >= session.length - 1
    assert model.images_encoded == 2
    (used,) = model.prompt([(other, opening(model, image, "Other question?"))])
    assert used.images_encoded == 1
    assert model.images_encoded == 2


def test_rewinding_to_a_mark_gives_what_was_there_before(checkpoint):
    model, image = checkpoint.load(), noise_image(90, 60)
    session = model.open()
    model.prompt([(session, opening(model, image, "What colour is it?"))])
    mark = session.length
    first = decode(model, session, 8)
    model.rewind(session, mark)
    assert session.length == mark
    again = decode(model, session, 8)
    assert [t.id for t in again.tokens] == [t.id for t in first.tokens]
    check_decoding(checkpoint.reference, session, again, [image])
    with pytest.raises(ValueError, match="split an image"):
        model.rewind(session, session.spans[0].start + 1)
    with pytest.raises(ValueError, match="rewind"):
        model.rewind(session, session.length + 1)


def test_rewinding_an_extension_leaves_nothing_of_it(checkpoint):
    model, image = checkpoint.load(), noise_image(90, 60)
    session = model.open()
    model.prompt([(session, opening(model, image, "What colour is it?"))])
    mark = session.length
    for length in (mark, mark - 3):
        model.extend(
            [(session, model.chat.reply((Picture(noise_image(60, 90, 1)), Text("Look."))))]
        )
        model.rewind(session, length)
        check_decoding(checkpoint.reference, session, decode(model, session, 4), [image])


def test_images_that_memory_forgot_are_encoded_again_only_where_they_are_new(checkpoint):
    model, images = checkpoint.load(), [noise_image(90, 60, seed) for seed in range(3)]
    model._parts.vision._memory_bytes = 1
    session, other = model.open(), model.open()
    for text in ("What colour?", "Which shape?"):
        model.prompt([(session, opening(model, *images, text))])
        assert model.images_encoded == 3
    model.prompt([(other, opening(model, images[0], "What colour?"))])
    assert model.images_encoded == 4
    check_decoding(checkpoint.reference, session, decode(model, session, 4), images)
    check_decoding(checkpoint.reference, other, decode(model, other, 4), images[:1])


def test_a_fork_grows_on_its_own(checkpoint):
    model, image = checkpoint.load(), noise_image(90, 60)
    session = model.open()
    model.prompt([(session, opening(model, image, "What colour is it?"))])
    decode(model, session, 3)
    twin = model.fork(session)
    model.extend([(twin, (Control("<|im_end|>\n"), Text("Plan.")))])
    model.extend([(session, (Text(" and then some more words"),))])
    for one in (session, twin):
        check_decoding(checkpoint.reference, one, decode(model, one, 5), [image])
    model.close(twin)
    check_decoding(checkpoint.reference, session, decode(model, session, 5), [image])


def test_closing_frees_memory_and_twice_is_fine(checkpoint):
    model = checkpoint.load()
    session = model.open()
    model.prompt([(session, opening(model, "Hello"))])
    assert model.kv_bytes > 0
    model.close(session)
    model.close(session)
    assert model.kv_bytes == 0


def test_a_stop_string_ends_the_text_and_the_limit_the_tokens(checkpoint):
    model = checkpoint.load()
    session = model.open()
    model.prompt([(session, opening(model, "Hello"))])
    mark = session.length
    full = decode(model, session, 12)
    model.rewind(session, mark)
    stopped = decode(model, session, 12, stop=(full.text[2:4],))
    assert stopped.stop_reason is StopReason.STOP_STRING
    assert stopped.text == full.text[: full.text.index(full.text[2:4]) + 2]
    model.rewind(session, mark)
    short = decode(model, session, 3)
    assert (short.stop_reason, len(short.tokens)) == (StopReason.LIMIT, 3)


def test_a_finished_decoding_is_left_alone(checkpoint):
    model = checkpoint.load()
    session = model.open()
    model.prompt([(session, opening(model, "Hello"))])
    done = decode(model, session, 1)
    assert model.step([DecodeWork(session, done)]) == [None]
    assert len(done.tokens) == 1


def test_long_prefills_are_split_into_passes_without_a_difference(checkpoint):
    model = checkpoint.load()
    small = QwenVLModel(model._parts, max_tokens_per_pass=16)
    results = []
    for one in (model, small):
        sessions = [one.open() for _ in range(3)]
        one.prompt([(s, opening(one, f"Question {i}" * (i + 1))) for i, s in enumerate(sessions)])
        results.append([[t.id for t in decode(one, s, 4).tokens] for s in sessions])
    assert results[0] == results[1]


def test_what_cannot_fit_or_be_seen_changes_no_session(checkpoint):
    model = checkpoint.load()
    good, bad = model.open(), model.open()
    for segments, error, code in (
        ((Text("word " * 2000),), BudgetError, "budget.context"),
        ((Picture(noise_image(402, 2)),), InputError, "input.image_aspect"),
    ):
        with pytest.raises(error) as caught:
            model.prompt([(good, opening(model, "Hello")), (bad, segments)])
        assert caught.value.code == code
        assert (good.length, bad.length, model.forward_passes) == (0, 0, 0)


def test_running_out_of_memory_is_reported_and_leaves_sessions_usable(checkpoint, monkeypatch):
    import torch

    model = checkpoint.load()
    session = model.open()
    model.prompt([(session, opening(model, "Hello"))])
    held = session.length

    def exhausted(*_):
        raise torch.OutOfMemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr("specctl.models.qwen.forward", exhausted)
        with pytest.raises(ModelError) as caught:
            model.extend([(session, (Text("more"),))])
    assert caught.value.code == "model.out_of_memory"
    assert session.length == held
    check_decoding(checkpoint.reference, session, decode(model, session, 3), [])


def test_view_size_is_the_processor_s(checkpoint):
    model = checkpoint.load()
    for width, height in ((90, 60), (500, 300), (7, 9), (3, 600)):
        view = model.view_size(width, height)
        grid = checkpoint.reference.processor(
            images=[noise_image(width, height).pixels], input_data_format="channels_last"
        )["image_grid_thw"][0]
        side = checkpoint.reference.processor.patch_size
        assert view == (int(grid[2]) * side, int(grid[1]) * side)


def test_sliding_window_layers_see_only_their_window(tmp_path):
    settings = {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 1}
    checkpoint = Checkpoint(save_checkpoint(tmp_path, "qwen2_5_vl", **settings))
    model, image = checkpoint.load(), noise_image(90, 60)
    session = model.open()
    model.prompt([(session, opening(model, image, "What colour is it?"))])
    check_decoding(checkpoint.reference, session, decode(model, session, 6), [image])
    model.extend([(session, model.chat.reply((Text("Look again, please."),)))])
    check_decoding(checkpoint.reference, session, decode(model, session, 6), [image])
