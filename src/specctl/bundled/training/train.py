"""The training loop: answers, with help for sight and for attention. Seeded and resumable."""

from __future__ import annotations

import json
import math
import os
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import DynamicCache, PreTrainedTokenizerFast

from .batches import IGNORE, LATE_SIZES, TRAIN_SIZES, Batch, Batcher, Group, Shape
from .fastpath import ATTENTION, Hints, fast_vision, vision_inputs
from .models import LAYOUTS, WIDTH, build_model
from .tokenizer import single_tokens
from .world import COLOURS, SHAPES


@dataclass(frozen=True)
class Recipe:
    """How one model is trained.

    The rate is constant after the warm-up and falls linearly to zero over the last `decay` steps.
    From step `colours_from` on, questions for a colour come `colours` times as often; from
    `large_from` on, large canvases are as frequent as small ones.
    """

    steps: int
    decay: int
    scenes: int = 16
    questions: int = 4
    rate: float = 2e-3
    warmup: int = 100
    overview_until: int = 0
    hint: float = 0.5
    seen: float = 0.5
    seed: int = 0
    colours_from: int = 0
    colours: float = 1.0
    large_from: int | None = None


RECIPES = {
    "drafter": Recipe(steps=2000, decay=600),
    "verifier": Recipe(
        steps=3400,
        decay=600,
        scenes=12,
        questions=3,
        overview_until=200,
        seen=1.0,
        colours_from=1400,
        colours=4.0,
        large_from=2400,
    ),
}


class Helpers(nn.Module):  # type: ignore[misc]
    """Heads used in training only: what each image token shows, and where it lies."""

    def __init__(self) -> None:
        super().__init__()
        self.size = nn.Linear(WIDTH, 3)
        self.place = nn.Linear(WIDTH, 8)


class Trainer:
    """One model under training, with all its state."""

    def __init__(self, role: str, tokenizer: PreTrainedTokenizerFast, recipe: Recipe) -> None:
        torch.manual_seed(recipe.seed)
        self.role, self.recipe, self.layout = role, recipe, LAYOUTS[role]
        self.model = build_model(role, tokenizer)
        self.helpers = Helpers()
        self.batcher = Batcher(role, tokenizer, recipe.seed)
        self.step = 0
        spaced = {
            name: (
                torch.tensor(single_tokens(tokenizer, tuple(words))),
                torch.tensor(single_tokens(tokenizer, tuple(f" {word}" for word in words))),
            )
            for name, words in (("colour", list(COLOURS)), ("shape", list(SHAPES)))
        }
        self.words = spaced
        with torch.no_grad():
            table = self.model.get_input_embeddings().weight
            for bare, led in spaced.values():
                table[led] = table[bare]
        fast_vision(self.model)
        self.model.model.language_model.config._attn_implementation = ATTENTION
        self.prefix_ids = torch.tensor(self.batcher.prefix_ids)
        self.seen_hidden: torch.Tensor | None = None
        layer = self.model.model.language_model.layers[self.layout.find_layer]
        layer.register_forward_pre_hook(self._remember)
        parameters = [*self.model.parameters(), *self.helpers.parameters()]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.05},
                {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
            ],
            lr=recipe.rate,
            betas=(0.9, 0.98),
            fused=True,
        )

    def _remember(self, _: nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        self.seen_hidden = arguments[0]

    def rate(self) -> float:
        """The learning rate of the current step."""
        recipe = self.recipe
        rising = min(1.0, (self.step + 1) / recipe.warmup)
        falling = min(1.0, (recipe.steps - self.step) / max(1, recipe.decay))
        return recipe.rate * rising * max(0.0, falling)

    def shape(self) -> Shape:
        """The make-up of the current batch: one object to five, overviews to zooms."""
        recipe = self.recipe
        most = min(5, 1 + self.step // 100)
        zooms = self.step >= recipe.overview_until
        colours = recipe.colours if self.step >= recipe.colours_from else 1.0
        large = recipe.large_from is not None and self.step >= recipe.large_from
        sizes = LATE_SIZES if large else TRAIN_SIZES
        return Shape(recipe.scenes, recipe.questions, most, zooms, colours, sizes)

    def train_step(self) -> dict[str, tuple[float, int]]:
        """One update; returns sums and counts of what was measured."""
        self.model.train()
        batch = self.batcher.batch(self.step, self.shape())
        rate = self.rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss, stats = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return stats

    def loss(self, batch: Batch) -> tuple[torch.Tensor, dict[str, tuple[float, int]]]:
        """The loss of a batch, and what was measured on the way."""
        side = self.layout.view // self.layout.patch
        inputs = vision_inputs(self.model, batch.pixels.shape[0], side)
        vision = self.model.model.visual(batch.pixels.flatten(0, 1), **inputs)
        views = vision.pooler_output.view(batch.pixels.shape[0], -1, WIDTH)
        stats: dict[str, tuple[float, int]] = {}
        total = self.recipe.seen * self._sight_loss(views, batch, stats)
        cache = self._prefix(views[: batch.scenes], vision)
        total = total + self.recipe.seen * self._place_loss(stats)
        answers: list[torch.Tensor] = []
        weights: list[torch.Tensor] = []
        looks: dict[str, list[torch.Tensor]] = defaultdict(list)
        for group in batch.groups:
            loss, weight, logs = self._branches(group, views[batch.scenes :], cache, stats)
            answers.append(loss)
            weights.append(weight)
            for slot, values in logs.items():
                looks[slot].append(values)
        answer = torch.cat(answers)
        weight = torch.cat(weights)
        total = total + (answer * weight).sum() / weight.sum()
        fade = self.rate() / self.recipe.rate if self.step > self.recipe.warmup else 1.0
        for slot, parts in looks.items():
            values = torch.cat(parts)
            total = total + self.recipe.hint * fade * values.mean()
            stats[f"look:{slot}"] = (float((-values.detach()).exp().sum()), len(values))
        stats["loss"] = (float(total.detach()), 1)
        return total, stats

    def _sight_loss(
        self, views: torch.Tensor, batch: Batch, stats: dict[str, tuple[float, int]]
    ) -> torch.Tensor:
        """Image tokens should resemble the words for their object's colour and shape."""
        table = self.model.get_input_embeddings().weight
        tokens = F.rms_norm(views, (WIDTH,))
        total = F.cross_entropy(
            self.helpers.size(tokens).flatten(0, 1),
            batch.labels.size.flatten(),
            ignore_index=IGNORE,
        )
        for name, labels in (("colour", batch.labels.colour), ("shape", batch.labels.shape)):
            chosen = labels != IGNORE
            if not bool(chosen.any()):
                continue
            target = labels[chosen]
            for ids in self.words[name]:
                scores = tokens[chosen] @ table[ids].T
                total = total + 0.5 * F.cross_entropy(scores, target)
            right = (scores.argmax(-1) == target).float()
            rows = chosen.nonzero()[:, 0]
            for part, where in (("scene", rows < batch.scenes), ("crop", rows >= batch.scenes)):
                if bool(where.any()):
                    stats[f"sight:{name}:{part}"] = (float(right[where].sum()), int(where.sum()))
        return total

    def _prefix(self, views: torch.Tensor, vision: Any) -> DynamicCache:
        """Run system text and overview once a scene."""
        scenes, start = views.shape[0], self.batcher.image_at
        words = self.model.get_input_embeddings()(self.prefix_ids)
        words = words[None].expand(scenes, -1, -1)
        embeds = torch.cat([words[:, :start], views, words[:, start + views.shape[1] :]], dim=1)
        more: dict[str, Any] = {}
        if self.role == "drafter":
            mask = (self.prefix_ids == self.batcher.image_token)[None].expand(scenes, -1)
            more = {
                "visual_pos_masks": mask,
                "deepstack_visual_embeds": list(vision.deepstack_features),
            }
        cache = DynamicCache()
        self.model.model.language_model(
            inputs_embeds=embeds,
            position_ids=self.batcher.prefix_positions[:, None].expand(-1, scenes, -1),
            cache=cache,
            use_cache=True,
            **more,
        )
        return cache

    def _place_loss(self, stats: dict[str, tuple[float, int]]) -> torch.Tensor:
        """Overview tokens should know their row and column by the time that words look for them."""
        assert self.seen_hidden is not None
        start = self.batcher.image_at
        hidden = self.seen_hidden[:, start : start + 16]
        scores = self.helpers.place(F.rms_norm(hidden, (WIDTH,)))
        cell = torch.arange(16).expand(scores.shape[0], -1)
        row, column = scores[..., :4].flatten(0, 1), scores[..., 4:].flatten(0, 1)
        right = (row.argmax(-1) == cell.flatten() // 4) & (column.argmax(-1) == cell.flatten() % 4)
        stats["place"] = (float(right.sum()), right.numel())
        return F.cross_entropy(row, cell.flatten() // 4) + F.cross_entropy(
            column, cell.flatten() % 4
        )

    def _branches(
        self,
        group: Group,
        crops: torch.Tensor,
        cache: DynamicCache,
        stats: dict[str, tuple[float, int]],
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Run the branches of a group on their scenes' prefixes."""
        embeds = self.model.get_input_embeddings()(group.ids)
        if len(group.crops):
            where = (group.ids == self.batcher.image_token)[..., None].expand_as(embeds)
            embeds = embeds.masked_scatter(where, crops[group.crops])
        branch_cache = DynamicCache()
        for index, layer in enumerate(cache.layers):
            branch_cache.update(layer.keys[group.scene], layer.values[group.scene], index)
        hints = Hints(self.layout, group.hints)
        with hints.watching():
            hidden = self.model.model.language_model(
                inputs_embeds=embeds,
                position_ids=group.positions,
                cache=branch_cache,
                use_cache=True,
            ).last_hidden_state
        weights = group.weights[:, 1:]
        chosen = weights > 0
        targets = group.ids[:, 1:][chosen]
        scores = self.model.lm_head(hidden[:, :-1][chosen])
        right = torch.zeros_like(weights)
        right[chosen] = (scores.detach().argmax(-1) == targets).float()
        for (kind, name), found in group.keys.items():
            hits = right[found[:, 0], found[:, 1] - 1]
            old = stats.get(f"{kind}:{name}", (0.0, 0))
            stats[f"{kind}:{name}"] = (old[0] + float(hits.sum()), old[1] + len(hits))
        return F.cross_entropy(scores, targets, reduction="none"), weights[chosen], hints.logs

    def save(self, path: Path) -> None:
        """Write everything needed to go on, in one step."""
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "step": self.step,
            "model": self.model.state_dict(),
            "helpers": self.helpers.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
        }
        fresh = path.with_suffix(".new")
        torch.save(state, fresh)
        os.replace(fresh, path)

    def restore(self, path: Path) -> None:
        """Go on from where `save` was called."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.helpers.load_state_dict(state["helpers"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        self.step = state["step"]


def train(
    role: str,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    workdir: Path,
    save_every: int = 200,
    log_every: int = 50,
) -> Trainer:
    """Train to the recipe's last step, from the workdir's checkpoint where there is one."""
    trainer = Trainer(role, tokenizer, recipe)
    checkpoint = workdir / f"{role}.pt"
    if checkpoint.exists():
        trainer.restore(checkpoint)
    workdir.mkdir(parents=True, exist_ok=True)
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    start = time.monotonic()
    with (workdir / f"{role}.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps({"recipe": asdict(recipe), "from": trainer.step}) + "\n")
        while trainer.step < recipe.steps:
            for name, (value, count) in trainer.train_step().items():
                sums[name][0] += value
                sums[name][1] += count
            if not math.isfinite(sums["loss"][0]):
                raise FloatingPointError(f"the loss is not finite at step {trainer.step}")
            if trainer.step % log_every == 0:
                line: dict[str, Any] = {"step": trainer.step, "s": round(time.monotonic() - start)}
                line |= {name: round(v / max(1.0, n), 3) for name, (v, n) in sorted(sums.items())}
                log.write(json.dumps(line) + "\n")
                log.flush()
                sums.clear()
            if trainer.step % save_every == 0:
                trainer.save(checkpoint)
    trainer.save(checkpoint)
    return trainer
