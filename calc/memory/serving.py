"""Memory of inference: weights, the pass that is widest, and the key-value cache, in theory and as engines allocate it.

A query's `seq` is the tokens of each sequence in the cache, all of which may be a prompt; `batch` the sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from calc.blocks.adapters import prompt_vectors
from calc.blocks.build import build
from calc.dtypes import dtype as number_format
from calc.errors import Refused
from calc.memory.cache import activation_dtype, batched_tokens, cache_on
from calc.memory.conditions import check
from calc.memory.live import Body, widest
from calc.memory.rank import Rank
from calc.memory.sharding import Stage, held_elements, stages
from calc.memory.states import on_stage
from calc.quantities.weights import Share, weight_bytes
from calc.sizes import Size, ceil_div, is_exactly, largest, minimum, ratio
from calc.spec import Bottleneck, Head, Lora, ModelSpec
from calc.spec.load import Load
from calc.spec.recurrent import recurrent
from calc.spec.run import Run
from calc.spec.traced import Traced
from calc.trace.footprint import Footprint
from calc.trace.op import Weight
from calc.trace.part import Leaf

LIMIT = 2**40
"""Where the search for the largest batch or context ends."""


def servers(spec: ModelSpec, run: Run) -> list[Rank]:
    """Every kind of rank of a model that is served as `run` says; tensor-parallel ranks are alike.

    Weights are in `run.dtype`, activations in it too where it is a plain format of 16 or 32 bits, else in what is not
    quantized, or bf16. Prompts are read in one pass, or `batched_tokens` at a time.
    Errors: Refused for ranks that do not divide the model, and for what is not known of its blocks.
    """
    _check(spec, run)
    found = [(stage, cache_on(spec, run, stage)) for stage in stages(spec, run)]
    footprint, passes = _footprint(spec, run), _passes(spec, run)
    return [_server(spec, run, stage, cache, footprint, passes) for stage, cache in found]


def max_batch(spec: ModelSpec, run: Run, budget: int) -> int | None:
    """The most sequences of `run.seq` tokens that fit `budget` bytes on every rank; None where any number does."""
    return _largest(lambda n: run.changed(batch=n), spec, budget)


def max_context(spec: ModelSpec, run: Run, budget: int) -> int | None:
    """The most tokens that each of `run.batch` sequences can have, whatever positions the model was made for."""
    return _largest(lambda n: run.changed(seq=n), spec, budget)


def max_concurrency(spec: ModelSpec, run: Run, budget: int) -> int | None:
    """As max_batch, where prompts are read `batched_tokens` at a time: without the run's or an engine's, one by one."""
    if run.batched_tokens is None and run.engine is None:
        run = run.changed(batched_tokens=run.seq)
    return max_batch(spec, run, budget)


def _largest(at: Callable[[int], Run], spec: ModelSpec, budget: int) -> int | None:
    """The largest n whose peak is within the budget, 0 where 1 is not. The peak never falls as n grows."""

    def fits(n: int) -> bool:
        return all(rank.peak <= budget for rank in servers(spec, at(n)))

    if type(budget) is not int or budget < 0:
        raise Refused("budget", "bytes from 0 on", budget)
    if not fits(1):
        return 0
    low = 1
    while fits(2 * low):
        low = 2 * low
        if low > LIMIT:
            return None
    high = 2 * low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _check(spec: ModelSpec, run: Run) -> None:
    if isinstance(spec.adapter, Lora | Bottleneck):
        expected = "none that acts within layers, where activations of inference are counted (merge low-rank updates)"
        raise Refused("adapter", expected, spec.adapter.kind)
    check(spec, run)
    if isinstance(spec, Traced):
        raise Refused("mode", "training for a traced model, since it is not known what names of a pass hold", run.mode)
    if not is_exactly(run.cp, 1):
        raise Refused("cp", "1 for inference", run.cp)
    if spec.takes_pictures and not is_exactly(run.images, 0):
        raise Refused("images", "0 where activations of inference are counted", run.images)
    if spec.audio is not None and run.source_seq is not None:
        raise Refused("source_seq", "none where activations of inference are counted", run.source_seq)


def _server(
    spec: ModelSpec, run: Run, stage: Stage, cache: Size, footprint: Footprint, passes: Mapping[str, tuple[Load, Body]]
) -> Rank:
    held = weights_held(spec, run, stage)
    moments: dict[str, dict[str, Size]] = {}
    by_pass: dict[str, tuple[str, ...]] = {}

    def moment(activations: Size, scores: Size) -> dict[str, Size]:
        return {"weights": held, "activations": activations, "logits": scores, "kv_cache": cache}

    for name, (load, body) in passes.items():
        own = {f"{name}, widest moment": moment(widest(body, footprint, stage), 0)}
        if stage.last and spec.head is not None:
            own[f"{name}, logits"] = moment(
                load.tokens * spec.d_model * footprint.width, _logits(spec, spec.head, run, load, footprint)
            )
        moments |= own
        by_pass[name] = tuple(own)
    terms = (largest(each[name] for each in moments.values()) for name in ("activations", "logits"))
    return Rank(stage.name, moment(*terms), moments, passes=by_pass)


def weights_held(spec: ModelSpec, run: Run, stage: Stage) -> Size:
    """Bytes of the weights of one rank."""
    return sum(weight_bytes(spec, run.dtype, _weights_of(spec, run, stage)).values())


def _footprint(spec: ModelSpec, run: Run) -> Footprint:
    """How the passes run. Errors: Refused for a closed form, and where it is not known what names hold."""
    if run.execution == "megatron":
        raise Refused("execution", "eager, sdpa or compiled for inference", run.execution)
    width = number_format(activation_dtype(run.dtype)).width
    footprint = Footprint(run.recorded_kernels, width, run.tp, run.device)
    if recurrent(spec) and not footprint.compiled:
        expected = "compiled for inference with recurrent layers (--execution compiled)"
        raise Refused("execution", expected, footprint.execution)
    return footprint


def _passes(spec: ModelSpec, run: Run) -> dict[str, tuple[Load, Body]]:
    """Reading the prompts, and one new token for each sequence: what is asked of the model, and the record of it.

    Of prompts that are read in pieces, the last: all sequences that are at hand bring as many tokens behind those that
    they have.
    """
    seq, batched = run.seq, batched_tokens(run)
    batch, context = run.batch, 0
    if batched is not None and spec.reads_tokens:
        seq = minimum(seq, batched)
        batch, context = ratio(minimum(batch * seq, batched), seq), run.seq - seq
    read = run.load(batch=batch, seq=seq, context=context)
    if not spec.decodes:
        return {"pass": (read, build(spec, read).body)}
    new = run.load(seq=1, context=run.seq - 1, decode=True, absorbed=run.absorbs, mtp=False)
    return {"prefill": (read, build(spec, read).body), "decode": (new, build(spec, new).body)}


def _logits(spec: ModelSpec, head: Head, run: Run, load: Load, footprint: Footprint) -> Size:
    """Bytes of the logits, in the format of the activations: sampling's own copies are left out."""
    rows = load.batch * (load.seq + prompt_vectors(spec)) if run.logits == "all" and not load.decode else load.batch
    columns = head.columns(spec.vocab_size)
    # Soft-capped logits are a second tensor.
    return rows * ceil_div(columns, run.tp) * footprint.width * (1 if head.softcap is None else 2)


def _weights_of(spec: ModelSpec, run: Run, stage: Stage) -> Share:
    """Copies and elements of each weight on a rank; experts are spread over `ep` ranks."""
    alone = is_exactly(run.tp, 1)

    def share(path: str, weight: Weight, leaf: Leaf) -> tuple[Size, Size | None]:
        copies = on_stage(path, weight, leaf, spec, stage)[0]
        if leaf.expert:
            copies = ceil_div(copies, run.ep)
        return copies, None if alone else held_elements(weight, run, leaf.expert)

    return share
