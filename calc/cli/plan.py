"""`plan`: every way to spread a training run over a cluster, timed and weighed, the best first."""

from __future__ import annotations

import sys
from typing import Any

import click

from calc.cli import options, plan_words
from calc.cli.amounts import Amount
from calc.cli.options import Names
from calc.cli.plan_tables import ruled_out, tables
from calc.cli.run_options import GroupedCommand, of_run
from calc.errors import Refused
from calc.output.notes import warn_beyond
from calc.output.progress import Progress
from calc.output.tables import emit
from calc.plan.launchers import launcher
from calc.plan.least import least_that_works
from calc.plan.objective import OBJECTIVES
from calc.plan.planning import TOP, answer
from calc.plan.question import Question
from calc.spec import ModelSpec
from calc.spec.clusters import load_cluster


@click.command(cls=GroupedCommand, short_help="Which plan: every way to spread a training run, the best first.")
@options.model
@click.option("--cluster", type=Names(), required=True, help="One of `clusters`, or a TOML file; several are compared.")
@click.option("--gpus", type=plan_words.Gpus(), required=True, help="64, or several: 64,96 or 8..512 by doubling.")
@click.option("--global-batch", type=plan_words.GlobalBatch(), required=True, help="Tokens of a step, or 512seq.")
@of_run("seq", "stack", "execution", "optimizer", words={"execution": ("eager", "sdpa", "compiled")})
@click.option("--dtype", metavar="RECIPES", help="Recipes to choose among.  [default: those of the stack]")
@click.option("--fix", type=plan_words.Settings(), multiple=True, help="A size or word that must be so: tp=8.")
@click.option("--at-most", type=plan_words.Settings(), multiple=True, help="A size that may not be larger: pp=4.")
@click.option("--headroom", metavar="SHARE", default="0%", show_default=True, help="Memory of a GPU to be left free.")
@click.option("--objective", type=click.Choice(OBJECTIVES), default="time", show_default=True, help="What to minimise.")
@click.option("--price", metavar="PRICE", help="Of a GPU-hour: 2/h, or dgx-h100=2/h,dgx-b200=4/h.")
@click.option("--tokens", type=Amount("tokens"), help="Of the whole run: its days and GPU-hours are told too.")
@click.option("--top", type=options.Tokens(), default=TOP, show_default=True, help="Plans to show.")
@options.output
def plan(
    model: ModelSpec,
    cluster: tuple[str, ...],
    gpus: tuple[int, ...],
    global_batch: str,
    dtype: str | None,
    fix: tuple[tuple[str, str], ...],
    at_most: tuple[tuple[str, str], ...],
    headroom: str,
    price: str | None,
    tokens: float | None,
    top: int,
    fmt: str,
    words: dict[str, Any],
    objective: Any,
) -> None:
    """Search every plan to train MODEL on so many GPUs of a cluster: data, tensor, pipeline, context and expert
    parallelism, micro-batches, ZeRO, checkpointing, schedules and formats, each with the memory that `memory` counts
    and the time that `predict` tells. docs/plans.md says what is searched and how wrong it was.

    \b
    Examples:
      python -m calc plan llama-3-8b --cluster dgx-h100 --gpus 8 --seq 8192 --global-batch 1Mi --stack fsdp2
    """
    seq = words.pop("seq")
    warn_beyond(model, seq, "--seq")
    sequences, rounding = plan_words.sequences(global_batch, seq)
    if rounding:
        click.echo(f"note: {rounding}", err=True)
    each = plan_words.prices(price, cluster)
    questions = [
        Question(
            spec=model,
            cluster=load_cluster(name),
            gpus=gpus,
            seq=seq,
            sequences=sequences,
            recipes=plan_words.recipes(dtype) or launcher(words.get("stack")).recipes,
            fixed=plan_words.fixed(fix),
            at_most=plan_words.at_most(at_most),
            headroom=plan_words.headroom(headroom),
            words=words,
            model=click.get_current_context().meta.get("reference", model.name),
            place=name,
            price=each.get(name),
        )
        for name in cluster
    ]
    progress = Progress()
    found = answer(questions, objective, top, progress)
    progress.close()
    if not found.plans:
        emit([], [ruled_out(found)], fmt)
        click.echo(f"error: {least_that_works(questions[-1], found)}", err=True)
        sys.exit(130 if found.interrupted else 1)
    emit(found.records(tokens), tables(found, tokens), fmt)
    if found.interrupted:
        sys.exit(130)
