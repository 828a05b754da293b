"""`plan`: every way to spread a training run over a cluster, timed and weighed, the best first."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from calc.blocks.build import vectors_read
from calc.cli import options, plan_file, plan_words
from calc.cli.amounts import Amount
from calc.cli.options import Names
from calc.cli.plan_grid import print_grid
from calc.cli.plan_modes import held_by_none, print_existing, print_fewest, print_launch, print_tokens
from calc.cli.plan_tables import end_as, ruled_out, tables
from calc.cli.run_options import GroupedCommand, of_run
from calc.errors import Refused
from calc.laws import DEFAULT
from calc.output.notes import remark, warn_beyond
from calc.output.progress import Progress
from calc.output.tables import emit
from calc.plan.answer import Answer
from calc.plan.export.beyond import beyond
from calc.plan.export.registry import TOOLS, tool
from calc.plan.minimum import least_that_works
from calc.plan.objective import OBJECTIVES
from calc.plan.planning import TOP, answer
from calc.plan.question import Question
from calc.reading.numbers import Number
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.time.cluster.stacks import graphs_tell
from calc.time.step.notes import GRAPHS


@click.command(cls=GroupedCommand, short_help="Which plan: every way to spread a training run, the best first.")
@options.model
@click.option("--cluster", type=Names(), required=True, help="One of `clusters`, or a TOML file; several are compared.")
@click.option("--gpus", type=plan_words.Gpus(), help="64, or several: 64,96 or 8..512 by doubling.")
@click.option(
    "--global-batch", type=plan_words.GlobalBatch(), help="Tokens of a step, or 512seq.  [default: of --from]"
)
@of_run(
    *("seq", "stack", "graphs", "execution", "optimizer", "precision_aware"),
    *("gradient_dtype", "fp8_recipe", "fp8_param_gather"),
    words={"execution": ("eager", "sdpa", "compiled")},
    own_length=plan_words.refuse_own_length,
)
@click.option("--dtype", metavar="RECIPES", help="Recipes to choose among.  [default: those of the stack]")
@click.option("--fix", type=plan_words.Settings(), multiple=True, help="A size or word that must be so: tp=8.")
@click.option("--at-most", type=plan_words.Settings(), multiple=True, help="A size that may not be larger: pp=4.")
@click.option("--headroom", metavar="SHARE", default="0%", show_default=True, help="Memory of a GPU to be left free.")
@click.option("--objective", type=click.Choice(OBJECTIVES), default="time", show_default=True, help="What to minimise.")
@click.option("--price", metavar="PRICE", help="Of a GPU-hour: 2/h, or dgx-h100=2/h,dgx-b200=4/h.")
@click.option("--tokens", type=Amount("tokens"), help="Of the whole run: its days and GPU-hours are told too.")
@click.option("--days", type=Number(above=0), help="With --tokens: how few GPUs. With --gpus: how many tokens.")
@click.option("--as", "written", metavar="TOOL", help=f"Print the best plan as {'|'.join(TOOLS)} launches it.")
@click.option("--from", "source", metavar="FILE", help="With --as: a launch file; what it costs and what is better.")
@click.option("--model-grid", "grid", metavar="SIZES", help="Shapes of MODEL: d_model=4096..8192:512,n_layers=32,40.")
@click.option("--params", type=Amount("parameters"), help="With --model-grid: the most that a shape may have.")
@click.option("--flops", type=Amount("FLOP"), help="With --model-grid: of training; tokens follow from the size.")
@click.option("--law", default=DEFAULT, show_default=True, help="With --model-grid: whose loss is told.")
@click.option("--top", type=options.Tokens(), default=TOP, show_default=True, help="Plans to show.")
@click.option("--every", is_flag=True, help="With --keep: every plan that fits, not only those that are needed.")
@options.working
@options.output
def plan(model: ModelSpec, **given: Any) -> None:
    """Search every plan to train MODEL on so many GPUs of a cluster: data, tensor, pipeline, context and expert
    parallelism, micro-batches, ZeRO, checkpointing, schedules and formats, each with the memory that `memory` counts
    and the time that `predict` tells. docs/plans.md says what is searched and how wrong it was. With --serve, plans of
    a server instead: `plan --serve --help`.

    \b
    Examples:
      python -m calc plan gpt2 --cluster dgx-h100 --gpus 8 --seq 1024 \\
          --global-batch 64Ki --stack fsdp2
      python -m calc plan gpt2 --cluster dgx-h100 --gpus 8 --seq 1024 \\
          --global-batch 64seq --as megatron-core
      python -m calc plan gpt2 --cluster dgx-h100 --gpus 8 \\
          --global-batch 64seq --model-grid n_layers=12,16 --params 1B
      python -m calc plan gpt2 --cluster dgx-h100 --tokens 300B --days 7 \\
          --global-batch 512Ki --stack deepspeed
    """
    fmt, days, workers, progress = given["fmt"], given["days"], given["workers"], Progress()
    plan_words.refuse_contradictions(given)
    source: str | None = given["source"]
    read = None if source is None else plan_file.read_launch(tool(given["written"]), source)
    questions = _questions(model, given if read is None else plan_file.with_file(model, given, read))
    if given["every"] and workers.keep is None:
        raise Refused("--every", "--keep beside it, the folder for them", "none")
    if given["grid"] is not None:
        budget = {"most_params": given["params"], "flops": given["flops"], "tokens": given["tokens"]}
        print_grid(questions[0], given["grid"], given["law"], budget, progress, workers, fmt)
    elif read is not None and source is not None:
        print_existing(questions[0], plan_file.unsaid(read, given), source, progress, workers, fmt)
    elif given["gpus"] is None:
        print_fewest(questions[0], given["tokens"], days, given["top"], progress, workers, fmt)
    else:
        _print_best(questions, given, progress)


def _print_best(questions: list[Question], given: dict[str, Any], progress: Progress) -> None:
    """The best plans, as a table, as a launch file or as the tokens of so many days. Ends with 1 where none fits."""
    fmt, tokens, days, workers, objective = (given[name] for name in ("fmt", "tokens", "days", "workers", "objective"))
    written = None if given["written"] is None else tool(given["written"])
    found = answer(questions, objective, given["top"], progress, workers, given["every"])
    wider = None if written is None else beyond(questions, written, found, objective, progress, workers)
    progress.close()
    if not found.plans:
        if written is not None and wider is not None:
            remark(held_by_none(wider, written.name))
        _end_without(found, questions[-1], fmt)
    if any(plan.run.offload != "none" and "offload" not in asked.fixed for plan in found.plans for asked in questions):
        remark("nothing fits with the optimizer on the GPUs: these plans keep it on the host")
    if written is not None:
        print_launch(found.plans[0], written, fmt, tokens, wider)
    elif days is not None:
        print_tokens(found, days, fmt)
    else:
        emit(found.records(tokens), tables(found, tokens), fmt)
    end_as(found.interrupted)


def _end_without(found: Answer, question: Question, fmt: str) -> NoReturn:
    """Why no plan was found, and the end: with 1, or as Ctrl-C ends a search."""
    if found.listed:
        emit([], [ruled_out(found)], fmt)
    early = "interrupted before a plan that fits was found"
    click.echo(f"error: {early if found.interrupted else least_that_works(question, found)}", err=True)
    sys.exit(130 if found.interrupted else 1)


def _questions(model: ModelSpec, given: dict[str, Any]) -> list[Question]:
    """What is searched, a question a cluster, with notes on how it was read."""
    words, clusters = dict(given["words"]), given["cluster"]
    plan_words.refuse_tokens(model, given)
    seq = int(vectors_read(model, words.pop("seq")))
    sequences, rounding = plan_words.sequences(given["global_batch"], seq)
    if given["gpus"] is None and (given["days"] is None or given["tokens"] is None):
        raise Refused("--gpus", "how many, or --days and --tokens to find how few", "none")
    prices = plan_words.prices(given["price"], clusters)
    fixed, at_most = plan_words.fixed(given["fix"]), plan_words.at_most(given["at_most"])
    plan_words.agree(fixed, at_most)
    about = Question.about if given["written"] is None else tool(given["written"]).question
    said = {
        "recipes": plan_words.recipes(given["dtype"]),
        "fixed": fixed,
        "at_most": at_most,
        "headroom": plan_words.headroom(given["headroom"]),
        "words": words,
        "model": options.reference_of(model),
        "read_as": options.read_as(),
    }
    asked = [about(model, name, given["gpus"], seq, sequences, price=prices.get(name), **said) for name in clusters]
    warn_beyond(model, seq, "--seq")
    if words.get("graphs") not in (None, "none"):
        run = Run(mode="training", stack=words.get("stack"), graphs=words["graphs"])
        remark(GRAPHS if graphs_tell(model, run) else "--graphs changes nothing with this model and stack")
    if rounding:
        remark(rounding)
    return asked
