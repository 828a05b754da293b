"""What `plan` prints where more is asked than the best plans: a launch file, one that is there, GPUs or tokens."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from calc.cli.plan_tables import UNTIL_THEN, end_as, tables
from calc.errors import Refused
from calc.output.notes import remark
from calc.output.progress import Progress
from calc.output.tables import Table, emit
from calc.plan.answer import Answer, Plan, difference, record_of
from calc.plan.deadline import fewest_gpus, tokens_in
from calc.plan.existing import plan_of, question_of, words_of
from calc.plan.export.beyond import Beyond
from calc.plan.export.launch import Launch, Read, Tool
from calc.plan.planning import answer
from calc.plan.question import Question, short
from calc.units import binary, duration, si
from calc.workers.workers import Workers


def print_launch(best: Plan, tool: Tool, fmt: str, tokens: float | None = None, wider: Beyond | None = None) -> None:
    """The best plan as a tool's launch file, alone on stdout; what it is said to take on stderr, what the file leaves
    to the program, and what it lacks of a better plan of the tool's stack (wider)."""
    launch = Launch(best.question, best.run)
    text, left = tool.write(launch), tool.left_to_program(launch)
    if fmt == "json":
        record = record_of(best, best, tokens) | {"tool": tool.name, "version": tool.version, "launch": text}
        record["left_to_program"] = left
        better = None if wider is None else record_of(wider.plan, wider.plan, tokens) | {"lacks": list(wider.lacks)}
        emit([record | {"beyond": better}], [], fmt)
        return
    click.echo(f"note: {tool.name} {tool.version}: {_one_line(best)}", err=True)
    if left:
        told = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in left.items())
        remark(f"a file of {tool.name} leaves to the program what this plan rests on: {told}")
    if wider is not None:
        remark(f"{held_by_none(wider, tool.name)}; {best.value / wider.plan.value - 1:.1%} better by it")
    click.echo(text, nl=False)


def held_by_none(wider: Beyond, tool: str) -> str:
    """That a tool's file cannot hold the best plan of its stack, and for want of what."""
    return f"{tool} has no words for {', '.join(wider.lacks)} of the best plan of its stack: {_one_line(wider.plan)}"


def print_existing(question: Question, read: Read, source: str, progress: Progress, workers: Workers, fmt: str) -> None:
    """What the plan of a launch file costs, and what would be better. Ends with 1 where it does not fit."""
    described = question_of(question, read)
    if len(described.gpus) != 1:
        raise Refused("--gpus", "one number", "several")
    own = plan_of(described, {**words_of(described, read), **question.fixed})
    found = answer([replace(described, fixed={})], "time", 1, progress, workers)
    progress.close()
    best = found.plans[0] if found.plans else own
    rows = [
        ("this file", _one_line(own)),
        ("the best until then" if found.interrupted else "the best", _one_line(best)),
    ]
    better = own.seconds / best.seconds - 1
    if better > 0:
        rows.append(("better by", f"{better:.1%}: {difference(best, own)}"))
    record = record_of(own, best) | {"better": record_of(best, best)}
    emit([record], [Table(("", ""), rows, f"{own.prediction.model}: {Path(source).name}")], fmt)
    end_as(found.interrupted)
    if not own.fits:
        sys.exit(1)


def print_fewest(
    question: Question, tokens: float, days: float, top: int, progress: Progress, workers: Workers, fmt: str
) -> None:
    """The plans on the fewest GPUs that are in time. Ends with 1 where none is."""
    found = fewest_gpus(question, tokens, days, top, progress, workers)
    progress.close()
    tried = ", ".join(f"{gpus:,}: {'none fits' if of is None else f'{of:,.1f}'}" for gpus, of in found.tried.items())
    if found.found is None:
        what = f"trains {si(tokens)} tokens in {days:g} days ({tried or 'none was tried to the end'})"
        early = "interrupted before a number of GPUs was found that"
        click.echo(f"error: {early if found.interrupted else 'no number of GPUs that was tried'} {what}", err=True)
        sys.exit(130 if found.interrupted else 1)
    click.echo(f"note: days by GPUs tried: {tried}", err=True)
    emit(found.found.records(tokens), tables(found.found, tokens), fmt)
    end_as(found.interrupted)


def print_tokens(found: Answer, days: float, fmt: str) -> None:
    """How many tokens the best plan on each number of GPUs trains on in so many days."""
    with_tokens = [(plan, tokens_in(plan, days)) for plan in found.by_gpus]
    records = [record_of(plan, found.plans[0], total) | {"tokens_total": total} for plan, total in with_tokens]
    rows = [(f"{plan.run.gpus:,}", short(plan.run), duration(plan.seconds), si(total)) for plan, total in with_tokens]
    note = "checkpoints and failures take their part of the days" + f"; {UNTIL_THEN}" * found.interrupted
    emit(records, [Table(("GPUs", "plan", "step", "tokens"), rows, f"tokens in {days:g} days", note)], fmt)


def _one_line(plan: Plan) -> str:
    """A plan and its numbers in a line."""
    room = "fits" if plan.fits else "does not fit"
    mfu = "" if plan.prediction.mfu is None else f", MFU {plan.prediction.mfu:.1%}"
    return (
        f"{short(plan.run)} on {plan.run.gpus:,} GPUs: {duration(plan.seconds)}{mfu}, peak {binary(plan.peak)}, {room}"
    )
