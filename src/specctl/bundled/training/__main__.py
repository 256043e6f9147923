"""The recipe's stages: `python -m specctl.bundled.training <stage>`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from .models import BUNDLED, ROLES, build_model, export
from .report import write_report
from .samples import write_samples
from .tokenizer import train_tokenizer
from .train import RECIPES, Trainer, train


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specctl.bundled.training", description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="more are not repeatable")
    stages = parser.add_subparsers(dest="stage", required=True)
    for name, text in (
        ("init", "write untrained checkpoints"),
        ("train", "train one model, going on from the workdir's checkpoint, then export it"),
        ("export", "write the workdir's checkpoint of one model as it is"),
    ):
        stage = stages.add_parser(name, help=text)
        stage.add_argument("--model", choices=ROLES, action="append", required=name != "init")
        stage.add_argument("--out", type=Path, default=BUNDLED, help="folder of the checkpoints")
        if name != "init":
            stage.add_argument("--workdir", type=Path, required=True, help="training state")
            stage.add_argument("--steps", type=int, help="last step, if not the recipe's")
            stage.add_argument("--decay", type=int, help="steps of falling rate before the last")
            stage.add_argument("--seed", type=int, default=0)
    samples = stages.add_parser("samples", help="write the sample pictures and their questions")
    report = stages.add_parser(
        "report", help="measure the checkpoints and write REPORT.md beside them"
    )
    for stage in (samples, report):
        stage.add_argument("--samples", type=Path, default=Path("sample_images"))
    report.add_argument("--out", type=Path, default=BUNDLED, help="folder of the checkpoints")
    report.add_argument("--count", type=int, default=200, help="questions of each kind")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run one stage."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.stage == "samples":
        print(write_samples(options.samples))
        return
    if options.stage == "report":
        print(write_report(options.out, options.samples, options.count))
        return
    for role in options.model or ROLES:
        tokenizer = train_tokenizer()
        if options.stage == "init":
            torch.manual_seed(0)
            print(export(role, build_model(role, tokenizer), tokenizer, options.out / role))
            continue
        changes = {
            name: value
            for name in ("steps", "decay", "seed")
            if (value := getattr(options, name)) is not None
        }
        recipe = replace(RECIPES[role], **changes)
        if options.stage == "train":
            trainer = train(role, tokenizer, recipe, options.workdir)
        else:
            trainer = Trainer(role, tokenizer, recipe)
            trainer.restore(options.workdir / f"{role}.pt")
        print(export(role, trainer.model, tokenizer, options.out / role), "at step", trainer.step)


if __name__ == "__main__":
    main()
