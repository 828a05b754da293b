"""Memory of inference: weights, the pass that is widest, and the key-value cache, in theory and as engines allocate it.

A query's `seq` is the tokens of each sequence in the cache, all of which may be a prompt; `batch` the sequences.
"""

from __future__ import annotations

from collections.abc import Callable

from calc.blocks.adapters import prompt_vectors
from calc.dtypes import dtype as number_format
from calc.errors import Refused
from calc.memory.cache import activation_dtype, batched_tokens, cache_on
from calc.memory.conditions import check
from calc.memory.forward import Pass, logits, widest
from calc.memory.rank import Rank
from calc.memory.sharding import Stage, held_elements, stages
from calc.memory.states import on_stage
from calc.quantities.weights import Share, weight_bytes
from calc.sizes import Size, ceil_div, largest, minimum
from calc.spec import Attention, Bottleneck, Lora, ModelSpec, Prefix
from calc.spec.run import Run
from calc.trace.op import Leaf, Weight

LIMIT = 2**40
"""Where the search for the largest batch or context ends."""


def servers(spec: ModelSpec, run: Run) -> list[Rank]:
    """Every kind of rank of a model that is served as `run` says; tensor-parallel ranks are alike.

    Weights are in `run.dtype`, activations in it too where it is a plain format of 16 or 32 bits, else in what is not
    quantized, or bf16. Prompts are read in one pass, or `batched_tokens` at a time.
    Errors: Refused for ranks that do not divide the model, and for what is not known of its blocks.
    """
    _check(spec, run)
    return [_server(spec, run, stage) for stage in stages(spec, run)]


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
    check(spec, run)
    if not isinstance(run.cp, int) or run.cp != 1:
        raise Refused("cp", "1 for inference", run.cp)
    if not spec.reads_tokens:
        raise Refused("model", "one that reads tokens, where activations of inference are counted", spec.name)
    if isinstance(spec.adapter, Lora | Bottleneck):
        expected = "none that acts within layers, where activations of inference are counted (merge low-rank updates)"
        raise Refused("adapter", expected, spec.adapter.kind)
    if spec.vision is not None and not (isinstance(run.images, int) and run.images == 0):
        raise Refused("images", "0 where activations of inference are counted", run.images)


def _server(spec: ModelSpec, run: Run, stage: Stage) -> Rank:
    held = sum(weight_bytes(spec, run.dtype, _weights_of(spec, run, stage)).values())
    cache = cache_on(spec, run, stage)
    moments: dict[str, dict[str, Size]] = {}

    def moment(activations: Size, scores: Size) -> dict[str, Size]:
        return {"weights": held, "activations": activations, "logits": scores, "kv_cache": cache}

    for name, each in _passes(spec, run).items():
        live = widest(spec, _in_old_words(run), each, stage.layers)
        moments[f"{name}, widest layer"] = moment(live, 0)
        if stage.last:
            scores = logits(spec, run, each)
            moments[f"{name}, logits"] = moment(each.tokens * spec.d_model * each.width, scores)
    terms = (largest(each[name] for each in moments.values()) for name in ("activations", "logits"))
    return Rank(stage.name, moment(*terms), moments)


def _in_old_words(run: Run) -> Run:
    """The same run as `calc.memory.forward` names executions."""
    return run.model_copy(update={"execution": "fused" if run.fuses else run.execution or "sdpa"})


def _passes(spec: ModelSpec, run: Run) -> dict[str, Pass]:
    """Reading the prompts, and one new token for each sequence."""
    load = run.load()
    width = number_format(activation_dtype(run.dtype)).bits // 8
    seq = run.seq + prompt_vectors(spec)
    keys = seq + (spec.adapter.length if isinstance(spec.adapter, Prefix) else 0)
    tokens, sequences = run.batch * seq, run.batch
    batched = batched_tokens(run)
    if batched is not None:
        tokens, sequences, seq = (minimum(each, batched) for each in (tokens, sequences, seq))
    length = load.source if load.source is not None else run.seq
    if spec.encoder is not None and load.source is None:
        length = getattr(spec.encoder.embedding, "n_frames", None) or run.seq
    source = sequences * length if spec.encoder is not None else 0
    prompt = Pass(tokens, sequences, seq, keys, source, width=width)
    if not _generates(spec):
        return {"pass": prompt}
    new = Pass(run.batch, run.batch, 1, keys, 0, True, run.absorbs, width)
    return {"prefill": prompt, "decode": new}


def _generates(spec: ModelSpec) -> bool:
    """Whether it makes one token after another: attention that sees all tokens, as BERT's, does not."""
    return not any(isinstance(group.mixer, Attention) and not group.mixer.causal for group in spec.layers)


def _weights_of(spec: ModelSpec, run: Run, stage: Stage) -> Share:
    """Copies and elements of each weight on a rank; experts are spread over `ep` ranks."""
    alone = isinstance(run.tp, int) and run.tp == 1

    def share(path: str, weight: Weight, leaf: Leaf) -> tuple[Size, Size | None]:
        copies = on_stage(path, leaf, spec, stage)[0]
        if leaf.expert:
            copies = ceil_div(copies, run.ep)
        return copies, None if alone else held_elements(weight, run)

    return share
