"""Memory of inference: weights, the pass that is widest, and the key-value cache, in theory and as engines allocate it.

A query's `seq` is the tokens of each sequence in the cache, all of which may be a prompt; `batch` the sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from calc.blocks.adapters import prompt_vectors
from calc.dtypes import dtype as number_format
from calc.errors import Refused
from calc.memory.cache import activation_dtype, batched_tokens, cache_on
from calc.memory.conditions import check
from calc.memory.forward import Pass, logits, widest
from calc.memory.plan import Plan
from calc.memory.rank import Rank
from calc.memory.sharding import Stage, held_elements, stages
from calc.memory.states import on_stage
from calc.op import Leaf, Weight
from calc.quantities.weights import Share, weight_bytes
from calc.query import Query
from calc.sizes import Size, ceil_div, largest, minimum
from calc.spec import Attention, Bottleneck, Lora, ModelSpec, Prefix

LIMIT = 2**40
"""Where the search for the largest batch or context ends."""


def servers(spec: ModelSpec, query: Query) -> list[Rank]:
    """Every kind of rank of a model that is served as `query.plan` says; tensor-parallel ranks are alike.

    Weights are in `query.dtype`, activations in it too where it is a plain format of 16 or 32 bits, else in what is not
    quantized, or bf16. Prompts are read in one pass, or `batched_tokens` at a time.
    Errors: Refused for a plan that does not divide the model, and for what is not known of its blocks.
    """
    plan = query.plan or Plan(mode="inference")
    _check(spec, query, plan)
    return [_server(spec, query, plan, stage) for stage in stages(spec, plan)]


def max_batch(spec: ModelSpec, query: Query, budget: int) -> int | None:
    """The most sequences of `query.seq` tokens that fit `budget` bytes on every rank; None where any number does."""
    return _largest(lambda n: replace(query, batch=n), spec, budget)


def max_context(spec: ModelSpec, query: Query, budget: int) -> int | None:
    """The most tokens that each of `query.batch` sequences can have, whatever positions the model was made for."""
    return _largest(lambda n: replace(query, seq=n), spec, budget)


def max_concurrency(spec: ModelSpec, query: Query, budget: int) -> int | None:
    """As max_batch, where prompts are read `batched_tokens` at a time: without a plan's or an engine's, one by one."""
    plan = query.plan or Plan(mode="inference")
    if plan.batched_tokens is None and plan.engine is None:
        query = replace(query, plan=replace(plan, batched_tokens=query.seq))
    return max_batch(spec, query, budget)


def _largest(at: Callable[[int], Query], spec: ModelSpec, budget: int) -> int | None:
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


def _check(spec: ModelSpec, query: Query, plan: Plan) -> None:
    check(spec, plan)
    if not isinstance(plan.cp, int) or plan.cp != 1:
        raise Refused("cp", "1 for inference", plan.cp)
    if not spec.reads_tokens:
        raise Refused("model", "one that reads tokens, where activations of inference are counted", spec.name)
    if isinstance(spec.adapter, Lora | Bottleneck):
        expected = "none that acts within layers, where activations of inference are counted (merge low-rank updates)"
        raise Refused("adapter", expected, spec.adapter.kind)
    if spec.vision is not None and not (isinstance(query.images, int) and query.images == 0):
        raise Refused("images", "0 where activations of inference are counted", query.images)


def _server(spec: ModelSpec, query: Query, plan: Plan, stage: Stage) -> Rank:
    held = sum(weight_bytes(spec, query.dtype, _weights_of(spec, plan, stage)).values())
    cache = cache_on(spec, query, plan, stage)
    moments: dict[str, dict[str, Size]] = {}

    def moment(activations: Size, scores: Size) -> dict[str, Size]:
        return {"weights": held, "activations": activations, "logits": scores, "kv_cache": cache}

    for name, run in _passes(spec, query, plan).items():
        live = widest(spec, plan, run, stage.layers)
        moments[f"{name}, widest layer"] = moment(live, 0)
        if stage.last:
            scores = logits(spec, plan, run)
            moments[f"{name}, logits"] = moment(run.tokens * spec.d_model * run.width, scores)
    terms = (largest(each[name] for each in moments.values()) for name in ("activations", "logits"))
    return Rank(stage.name, moment(*terms), moments)


def _passes(spec: ModelSpec, query: Query, plan: Plan) -> dict[str, Pass]:
    """Reading the prompts, and one new token for each sequence."""
    load = query.load()
    width = number_format(activation_dtype(query.dtype)).bits // 8
    seq = query.seq + prompt_vectors(spec)
    keys = seq + (spec.adapter.length if isinstance(spec.adapter, Prefix) else 0)
    tokens, sequences = query.batch * seq, query.batch
    batched = batched_tokens(plan)
    if batched is not None:
        tokens, sequences, seq = (minimum(each, batched) for each in (tokens, sequences, seq))
    length = load.source if load.source is not None else query.seq
    if spec.encoder is not None and load.source is None:
        length = getattr(spec.encoder.embedding, "n_frames", None) or query.seq
    source = sequences * length if spec.encoder is not None else 0
    prompt = Pass(tokens, sequences, seq, keys, source, width=width)
    if not _generates(spec):
        return {"pass": prompt}
    absorbed = query.latent_reading == "absorbed"
    new = Pass(query.batch, query.batch, 1, keys, 0, True, absorbed, width)
    return {"prefill": prompt, "decode": new}


def _generates(spec: ModelSpec) -> bool:
    """Whether it makes one token after another: attention that sees all tokens, as BERT's, does not."""
    return not any(isinstance(m, Attention) and not m.causal for group in spec.layers for m in group.mixers)


def _weights_of(spec: ModelSpec, plan: Plan, stage: Stage) -> Share:
    """Copies and elements of each weight on a rank; experts are spread over `ep` ranks."""
    alone = isinstance(plan.tp, int) and plan.tp == 1

    def share(path: str, weight: Weight, leaf: Leaf) -> tuple[Size, Size | None]:
        copies = on_stage(path, leaf, spec, stage)[0]
        if any(part.name.startswith("experts") for part in leaf.parents):
            copies = ceil_div(copies, plan.ep)
        return copies, None if alone else held_elements(weight, leaf, spec, plan)

    return share
