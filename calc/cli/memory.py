"""`memory`: what one GPU holds in training or serving, when it holds the most, and what would change that."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import click
from click.core import ParameterSource

from calc.cli import adapting, completing, options, planning, serving
from calc.cli.output import Table, emit
from calc.errors import Refused
from calc.hardware import load_device
from calc.memory.advice import Change, changes
from calc.memory.cache import batched_tokens, cache_dtype
from calc.memory.keepers import keepers
from calc.memory.plan import Plan
from calc.memory.precision import RECIPE_BY_NAME
from calc.memory.rank import Rank
from calc.memory.verdict import Verdict, budget_bytes, largest, usable, verdict
from calc.query import Query, ask
from calc.spec import ModelSpec
from calc.units import binary

SHOWN = 8  # operations that are named
TERMS = ("weights", "gradients", "optimizer", "activations", "logits", "kv_cache")


@click.command(short_help="Memory of a GPU: will it fit, in training or served?")
@options.model
@planning.mode
@options.seq
@options.batch
@click.option(
    "--dtype",
    metavar="FORMAT",
    help="Training: the recipe, as --recipe. Inference: of the weights, as fp8 or int4:g128.  "
    "[default: bf16-mixed; bf16]",
)
@options.checkpointing
@planning.plan
@click.option(
    "--gpu", metavar="NAME", shell_complete=completing.gpus, help="The device that it is to fit; `gpus` lists them."
)
@click.option("--budget", metavar="BYTES", help="What it is to fit on every GPU, such as 80GiB.")
@click.option(
    "--memory-fraction", metavar="F", default="1", show_default=True, help="How much of --gpu or --budget may be used."
)
@options.window_reading
@options.source_seq
@options.state_dtype
@options.latent_reading
@adapting.adapters
@options.output
def memory(
    model: ModelSpec,
    dtype: str | None,
    plan: Plan | None,
    gpu: str | None,
    budget: str | None,
    memory_fraction: str,
    fmt: str,
    **asked: Any,
) -> None:
    """Count the bytes that the GPU with the most holds when MODEL is trained or served, and say whether they fit.

    --batch is of one data-parallel rank: its micro-batch in training, its sequences in serving, each of --seq tokens.
    total adds up the terms, whenever each is live; peak is the most that is live at once. docs/memory.md says what each
    execution keeps, what the recipes and optimizers hold and what is left out.

    \b
    Examples:
      python -m calc memory llama-3-8b --seq 8192 --checkpointing full --gpu h200
      python -m calc memory llama-3-8b --dp 8 --zero 3 --budget 80GiB
      python -m calc memory llama-3-70b --mode inference --dtype fp8 --seq 32768 --batch 16 --tp 2 --gpu h100-sxm
    """
    query = _query(dtype, plan or Plan(), asked)
    plan = query.plan or Plan()
    planning.unused("memory", plan)
    if plan.checkpoint_every != 1 and not query.checkpointing.startswith(("full", "selective-op")):
        click.echo("note: --checkpoint-every changes nothing without --checkpointing full or selective-op", err=True)
    _warn(model, query)
    found = verdict(model, query, *_budget(gpu, budget, memory_fraction))
    more = serving.counted(model, query, found.budget) if plan.mode == "inference" else {}
    advice = [_named(change, dtype) for change in changes(model, query, found.budget)]
    record = {
        **_record(model, found),
        **more,
        "advice": [asdict(change) for change in advice],
        "layer": [keeper._asdict() for keeper in keepers(model, query)],
        **_asked(query, gpu),
    }
    tables = [*_tables(model, query, found), *serving.tables(model, more), *_advice(advice, plan, found.fits)]
    emit([record], tables, fmt)


def _warn(spec: ModelSpec, query: Query) -> None:
    """Notes on what was asked and changes nothing, or less than it seems."""
    plan = query.plan or Plan()
    options.warn_beyond(spec, query.seq, "--seq")
    if query.source_seq is not None and spec.encoder is None:
        click.echo("note: --source-seq changes nothing for a model without an encoder", err=True)
    if plan.mode == "inference":
        return
    planning.note_undivided(plan)
    if plan.dp * plan.cp > 1 and plan.zero > 1 and plan.pp > 1:
        click.echo("note: in a pipeline --zero 2 and 3 divide gradients only after the last micro-batch", err=True)


def _query(dtype: str | None, plan: Plan, asked: dict[str, Any]) -> Query:
    """The question, with --dtype read as the mode reads it."""
    if plan.mode == "inference":
        return ask(plan=plan, dtype=dtype or "bf16", **asked)
    if dtype is not None:
        if click.get_current_context().get_parameter_source("recipe") is ParameterSource.COMMANDLINE:
            raise Refused("--dtype", "--dtype or --recipe, which mean the same in training", "both")
        if dtype not in RECIPE_BY_NAME:
            why = "; with fp16, small gradients vanish, and how its loss is scaled is not described" * (dtype == "fp16")
            raise Refused("--dtype", f"in training a recipe, one of {', '.join(RECIPE_BY_NAME)}{why}", dtype)
        plan = replace(plan, recipe=dtype)
    return ask(plan=plan, **asked)


def _budget(gpu: str | None, budget: str | None, fraction: str) -> tuple[int | None, str]:
    """Bytes that one GPU gives, and what gives them."""
    if gpu is not None and budget is not None:
        raise Refused("--budget", "--gpu or --budget", "both")
    if gpu is None and budget is None:
        if usable(1, fraction) != 1:
            click.echo("note: --memory-fraction changes nothing without --gpu or --budget", err=True)
        return None, ""
    if gpu is not None:
        device = load_device(gpu)
        whole, name = device.usable, f"{device.name} ({binary(device.usable)})"
    else:
        whole = budget_bytes(budget or "")
        name = binary(whole)
    part = usable(whole, fraction)
    return part, name if part == whole else f"{binary(part)} of {name}"


def _named(change: Change, dtype: str | None) -> Change:
    """The same change with --dtype for --recipe, where --dtype was given."""
    return replace(change, options=change.options.replace("--recipe", "--dtype")) if dtype else change


def _record(spec: ModelSpec, it: Verdict) -> dict[str, Any]:
    return {
        "model": spec.name,
        **_terms(it.worst),
        "fits": it.fits,
        "budget": it.budget,
        "left": it.left,
        "rank": it.worst.stage,
        "peak_at": it.moment,
        "reserved": it.reserved,
        "timeline": {name: {**live, "live": sum(live.values())} for name, live in it.worst.moments.items()},
        "ranks": [{"rank": rank.stage, **_terms(rank)} for rank in it.ranks],
    }


def _terms(rank: Rank) -> dict[str, int]:
    return {**{name: rank.terms.get(name, 0) for name in TERMS}, "total": rank.total, "peak": rank.peak}


def _asked(query: Query, gpu: str | None) -> dict[str, Any]:
    """What the answer is to: everything that was asked, defaults included."""
    plan = query.plan or Plan()
    own = {"batch": query.batch, "seq": query.seq, "checkpointing": query.checkpointing, "dtype": query.dtype}
    whole = {name: value for name, value in asdict(plan).items() if name != "told"}
    return {"gpu": gpu and load_device(gpu).name, "gpus": plan.gpus, "plan": {**own, **whole}}


def _tables(spec: ModelSpec, query: Query, it: Verdict) -> list[Table]:
    worst, live = it.worst, it.live
    rows = [
        (name, f"{worst.terms[name]:,}", binary(worst.terms[name]), f"{worst.terms[name] / worst.total:.1%}",
         binary(live.get(name, 0)))
        for name in TERMS if name in worst.terms
    ]  # fmt: skip
    if live.get("temporaries"):
        rows.append(("temporaries", "–", "–", "–", binary(live["temporaries"])))
    rows.append(("total", f"{worst.total:,}", binary(worst.total), "100.0%", binary(worst.peak)))
    if it.reserved is not None and it.reserved > worst.peak:
        rows.append(("reserved by PyTorch", "–", "–", "–", binary(it.reserved)))
    title = f"{spec.name}: {it.sentence()}"
    return [Table(("", "bytes", "size", "share", "at the peak"), rows, title, _setting(spec, query)), *_step(it)]


def why(spec: ModelSpec, asked: dict[str, Any]) -> list[Table]:
    """For `explain`: when the most is live, of what, what would change it, and which operations keep the most."""
    query = ask(**asked)
    most = keepers(spec, query)[:SHOWN]
    rows = [(each.op, binary(each.bytes), f"{each.layers:,}", ", ".join(each.tensors)) for each in most]
    kept = [Table(("kept by", "a layer", "layers", "tensors"), rows)] if rows else []
    return [*_step(verdict(spec, query)), *_advice(changes(spec, query), query.plan or Plan()), *kept]


def _step(it: Verdict) -> list[Table]:
    """The moments of a step or of serving, and the kinds of ranks where there are several."""
    moments = [
        (name, binary(it.worst.timeline[name]), _largest(kept), "← peak" * (name == it.moment))
        for name, kept in it.worst.moments.items()
    ]
    stages = [_stages(it)] if len(it.ranks) > 1 else []
    return [*stages, Table(("moment", "live", "most of it", ""), moments)]


def _largest(live: Any) -> str:
    return ", ".join((largest(live)[0], binary(largest(live)[1])))


def _setting(spec: ModelSpec, query: Query) -> str:
    """What was asked, in a few words."""
    plan = query.plan or Plan()
    if plan.mode == "inference":
        tokens = batched_tokens(plan)
        once = "prompts in one pass" if tokens is None else f"{tokens:,} tokens a pass"
        words = [f"weights in {query.dtype}", f"cache in {cache_dtype(query, plan)}", plan.execution, once]
    else:
        checkpointing = "no" if query.checkpointing == "none" else query.checkpointing
        words = [plan.recipe, plan.optimizer, plan.execution, f"{checkpointing} checkpointing"]
    words += ["no pictures"] * (spec.vision is not None)
    gpus = f"{plan.gpus:,} GPU{'s' * (plan.gpus != 1)}"
    return f"{plan.mode}, {query.batch:,} × {query.seq:,} tokens, {', '.join(words)}, {gpus}"


def _stages(it: Verdict) -> Table:
    """First rank, the highest of those between, last rank."""
    first, *middle, last = it.ranks
    between = [max(middle, key=lambda rank: rank.peak)] if middle else []
    shown = [first, *between, last]
    names = [name for name in TERMS if any(rank.terms.get(name) for rank in shown)]
    rows = [
        (rank.stage, *(binary(rank.terms.get(name, 0)) for name in names), binary(rank.total), binary(rank.peak))
        for rank in shown
    ]
    note = f"the highest of {len(middle)} between first and last" if len(middle) > 1 else ""
    return Table(("rank", *names, "total", "peak"), rows, "", note)


def _advice(advice: list[Change], plan: Plan, fits: bool | None = None) -> list[Table]:
    """Changes of one setting; whether they fit, where the plan itself does not."""
    if not advice:
        return []
    columns = {
        "one change": [change.name for change in advice],
        "option": [change.options for change in advice],
        "saves": [f"-{binary(change.saved)}" for change in advice],
        "peak": [binary(change.peak) for change in advice],
        "FLOPs": [f"{change.flops:+.0%}" for change in advice],
        "GPUs": [f"{change.gpus:,}" for change in advice],
        "fits": ["yes" if change.fits else "no" for change in advice],
    }
    if plan.mode == "inference":
        del columns["FLOPs"]
    if fits is not False:
        del columns["fits"]
    return [Table(tuple(columns), list(zip(*columns.values(), strict=True)))]
