"""What `memory` prints for people: what a rank's memory is made of, when it holds the most, and what changes that."""

from __future__ import annotations

from typing import Any

from calc.memory.advice import Change, changes
from calc.memory.cache import batched_tokens, cache_dtype
from calc.memory.keepers import keepers
from calc.memory.verdict import Verdict, largest, verdict
from calc.output.tables import Table
from calc.spec import ModelSpec
from calc.spec.run import Run, exact_run
from calc.units import binary

SHOWN = 8
"""Operations that are named."""
TERMS = ("weights", "gradients", "optimizer", "activations", "logits", "kv_cache")


def tables(spec: ModelSpec, it: Verdict, note: str) -> list[Table]:
    """The terms of the rank that holds the most, and the moments of a step. note: below the terms."""
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
    if it.host:
        rows.append(("on the host", f"{it.host:,}", binary(it.host), "–", "–"))
        rows.append(("on the host, at most", f"{it.host_at_most:,}", binary(it.host_at_most or 0), "–", "–"))
    title = f"{spec.name}: {it.sentence()}"
    return [Table(("", "bytes", "size", "share", "at the peak"), rows, title, note), *_step(it)]


def explain_peak(spec: ModelSpec, given: dict[str, Any]) -> list[Table]:
    """For `explain`: when the most is live, of what, what would change it, and which operations keep the most."""
    run = exact_run(**given)
    most = keepers(spec, run)[:SHOWN]
    rows = [(each.op, binary(each.bytes), f"{each.layers:,}", ", ".join(each.tensors)) for each in most]
    tables = [Table(("kept by", "a layer", "layers", "tensors"), rows)] if rows else []
    return [*_step(verdict(spec, run)), *advice_table(changes(spec, run), run), *tables]


def _step(it: Verdict) -> list[Table]:
    """The moments of a step or of serving, and the kinds of ranks where there are several."""
    moments = [
        (name, binary(it.worst.timeline[name]), _largest(held), "← peak" * (name == it.moment))
        for name, held in it.worst.moments.items()
    ]
    stages = [_stages(it)] if len(it.ranks) > 1 else []
    return [*stages, Table(("moment", "live", "most of it", ""), moments)]


def _largest(live: Any) -> str:
    return ", ".join((largest(live)[0], binary(largest(live)[1])))


def setting(spec: ModelSpec, run: Run) -> str:
    """What was asked, in a few words."""
    if run.mode == "inference":
        tokens = batched_tokens(run)
        once = "prompts in one pass" if tokens is None else f"{tokens:,} tokens a pass"
        words = [f"weights in {run.dtype}", f"cache in {cache_dtype(run)}", run.usual_execution, once]
    else:
        checkpointing = "no" if run.checkpointing == "none" else run.checkpointing
        words = [run.recipe, run.usual_optimizer, run.usual_execution, f"{checkpointing} checkpointing"]
        words += [f"{' and '.join(run.recompute)} again"] * bool(run.recompute)
    if spec.takes_pictures:
        words.append(f"{run.images or 'no'} picture{'s' * (run.images != 1)}")
    gpus = f"{run.gpus:,} GPU{'s' * (run.gpus != 1)}"
    unit = spec.unit.removesuffix("s") if run.seq == 1 else spec.unit
    return f"{run.mode}, {run.batch:,} × {run.seq:,} {unit}, {', '.join(words)}, {gpus}"


def assumed(least: Run | None) -> str:
    """What nobody said of checkpointing, where that does not fit, and the `least` that would."""
    if least is None:
        return "assumed: no checkpointing; no --checkpointing full is known to fit"
    every = f" --checkpoint-every {least.checkpoint_every}" * (least.checkpoint_every > 1)
    return f"assumed: no checkpointing; --checkpointing {least.checkpointing}{every} fits"


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
    return Table(("rank", *names, "total", "peak"), rows, "", note, spare=("total",))


def advice_table(advice: list[Change], run: Run, fits: bool | None = None) -> list[Table]:
    """Changes of one setting; whether they fit, where the run itself does not."""
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
    if run.mode == "inference":
        del columns["FLOPs"]
    if fits is not False:
        del columns["fits"]
    return [Table(tuple(columns), list(zip(*columns.values(), strict=True)))]
