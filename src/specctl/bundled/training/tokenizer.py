"""The pair's tokenizer: byte-level BPE learnt from the world's texts and the prompts."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from .prompts import (
    DRAFTER_EXTENT,
    VERIFIER_EXTENT,
    drafter_answer,
    drafter_plan,
    prefix,
    preset,
    verifier_dialogue,
)
from .questions import KINDS, answer_words, ask
from .world import COLOURS, GRID, SHAPES, draw_scene

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
VOCABULARY = 768
PIECES = r" ?[\p{L}_]+| ?\p{N}+| ?[^\s\p{L}\p{N}_]+|\s"
"""A piece is a word, a number, a run of signs (each with the space before it), or a space."""

CHAT_TEMPLATE = (
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{ message.content }}"
    "{%- else %}{%- for item in message.content %}"
    "{%- if item.type == 'image' or 'image' in item %}"
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- elif 'text' in item %}{{ item.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}{{ '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)


def _corpus(seed: int, scenes: int) -> Iterator[str]:
    rng = random.Random(f"tokenizer {seed}")
    numbers = {
        extent * step // GRID for extent in (DRAFTER_EXTENT, VERIFIER_EXTENT) for step in range(5)
    }
    words = [*answer_words(), *COLOURS, *SHAPES, *(str(number) for number in sorted(numbers))]
    texts = preset()
    for _ in range(scenes):
        yield from words
        yield from (f" {word}" for word in words)
        scene = draw_scene(rng, 3, 5)
        for kind in KINDS:
            question = ask(rng, scene, kind)
            if question is not None:
                yield drafter_answer(question).text
                yield drafter_plan(question).text
                yield verifier_dialogue(question).text
        for role in ("drafter", "verifier"):
            yield prefix(role)
            yield texts[role]["options"].format(options="A. star B. red C. yes D. no")
        yield "Error: the box is empty or outside of the image."


def train_tokenizer(seed: int = 0) -> PreTrainedTokenizerFast:
    """Learn the tokenizer; every byte is in its alphabet, so that any text can be encoded."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - len(TAGS),
        min_frequency=20,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces = (piece for text in _corpus(seed, 300) for piece in _between_tags(text))
    tokenizer.train_from_iterator(pieces, trainer)
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in SPECIAL]
    )
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=[text for text in SPECIAL[1:] if text != "<|im_end|>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )


def _between_tags(text: str) -> list[str]:
    for tag in (*SPECIAL, *TAGS):
        text = text.replace(tag, "\0")
    return [piece for piece in text.split("\0") if piece]


def single_tokens(tokenizer: PreTrainedTokenizerFast, words: tuple[str, ...]) -> list[int]:
    """The ids of words that must be one token each."""
    ids = [tokenizer.encode(word, add_special_tokens=False) for word in words]
    broken = [word for word, pieces in zip(words, ids, strict=True) if len(pieces) != 1]
    if broken:
        raise ValueError(f"not one token each: {broken}")
    return [pieces[0] for pieces in ids]
