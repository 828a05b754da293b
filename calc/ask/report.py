"""Everything a model costs, on one page: the main job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from calc import conventions
from calc.ask import registry
from calc.ask.quantity import sum_of
from calc.blocks.build import source_length
from calc.dtypes import DTYPES
from calc.errors import Refused
from calc.quantities.kv_cache import KvCache, kv_cache
from calc.quantities.parameters import by_tower, parameters
from calc.quantities.shipped import shipped_formats
from calc.spec import Features, Frames, ModelSpec, Series
from calc.spec.run import COUNTED_PHASES, MODES, ExecutionName, Run, common_context, common_length, exact_run
from calc.units import binary, si

CONTEXTS = (4096, 32768)
PLAIN = ("bf16", "fp16", "fp8", "fp32")
"""Formats that a device computes in, or not."""


class Held(NamedTuple):
    """peak: bytes at the highest moment. devices: those of the catalogue whose memory holds them, smallest first.

    execution: of which kernels, where those of the run are not known; None where they are.
    """

    peak: int
    devices: tuple[str, ...]
    execution: ExecutionName | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All terms of the cost report, exact.

    components, active_components: parameters by component, all and those that a token visits.
    seq: the sequence length of the FLOPs. context: cached tokens of decode, `calc.common_context`. source: length of
    what an encoder reads beside it, None without one. flops: by phase, for one sequence. trained: those of training, by
    what they are of: products with weights, attention's pairs, and others.
    six_n: 6 * N * seq, with all parameters that a token of text visits as N. caches: KV cache of one sequence in bf16,
    by context length. weights: bytes by number format. shipped: bytes of the checkpoint as it is published, by the name
    of the format, where the config says how; else empty. memory: of one device by `training` and `inference`, for one
    sequence and the defaults of `calc.Run`, as far as its kernels are known; uncounted: why not, by mode, where that
    is not known. A model of pictures or sound has no seq, six_n or caches; its FLOPs are those of one.
    run: what was asked for. read: what was counted, in words.
    """

    model: str
    family: str
    verdict: str
    components: Mapping[str, int]
    active_components: Mapping[str, int]
    seq: int | None
    context: int | None
    source: int | None
    flops: Mapping[str, int]
    trained: Mapping[str, int]
    six_n: int | None
    caches: Mapping[int, KvCache]
    max_seq_len: int | None
    weights: Mapping[str, int]
    shipped: Mapping[str, int]
    memory: Mapping[str, Held]
    uncounted: Mapping[str, str]
    run: Run
    read: str

    @property
    def total(self) -> int:
        return sum(self.components.values())

    @property
    def active(self) -> int:
        return sum(self.active_components.values())

    @property
    def against_six_n(self) -> Mapping[str, float]:
        """What the FLOPs of training differ by from 6 * N * seq, as parts of it that add up: `linear`, where tables
        that are looked up and norms have no products; `attention`, whose pairs no parameter tells; `other`."""
        if self.six_n is None:
            return {}
        parts = {name: value / self.six_n for name, value in self.trained.items() if value}
        return parts | {"linear": parts.get("linear", 0.0) - 1}

    @property
    def towers(self) -> Mapping[str, int]:
        """Text and towers apart, where the model has towers whose vectors stand among its tokens."""
        return by_tower(self.components, self.active_components)


def report(spec: ModelSpec, seq: int | None = None) -> Report:
    """The cost of `spec` for one sequence of `seq` tokens (default: `common_length`), under convention torch.

    Errors: Refused for a sequence that is no whole number from 1 on.
    """
    seq = common_length([spec]) if seq is None else seq
    run = exact_run(seq=seq, context=common_context([spec], seq))
    components, active = parameters(spec), parameters(spec, active=True)
    phases = COUNTED_PHASES if spec.decodes else ("forward", "training")
    counted = {phase: conventions.flops(spec, run.changed(phase=phase)) for phase in phases}
    flops = {phase: found.total for phase, found in counted.items()}
    step, read = counted["training"], _read(spec, seq)
    lengths = sorted({*CONTEXTS, spec.max_seq_len or CONTEXTS[0]}) if spec.decodes else []
    memory, uncounted = _memory(spec, run)
    return Report(
        model=spec.name,
        family=spec.family,
        verdict=_verdict(spec, components, active, flops["training"], seq, read),
        components=components,
        active_components=active,
        seq=seq if spec.reads_tokens else None,
        context=common_context([spec], seq) if spec.reads_tokens else None,
        source=source_length(spec, seq),
        flops=flops,
        trained={"linear": step.linear, "attention": step.attention, "other": step.other},
        six_n=6 * by_tower(components, active).get("active_text", sum(active.values())) * seq
        if spec.reads_tokens
        else None,
        caches={length: kv_cache(spec, 1, length) for length in lengths},
        max_seq_len=spec.max_seq_len,
        weights={d.name: sum_of(registry.find("weights").compute(spec, Run(dtype=d.name))) for d in DTYPES},
        shipped={} if spec.shipped is None else shipped_formats(spec),
        memory=memory,
        uncounted=uncounted,
        run=run,
        read=read,
    )


READ: dict[type, str] = {Features: "one row of a table", Series: "one series"}
"""What goes in by its front, where it is neither text nor a picture or sound."""


def _read(spec: ModelSpec, seq: int) -> str:
    """What goes in: tokens, a sound of the length that the model is made for, a row of a table, a series, or
    a picture."""
    if spec.reads_tokens:
        return f"{seq:,} tokens"
    if not isinstance(spec.embedding, Frames):
        return READ.get(type(spec.embedding), "one picture or sound")
    frames = spec.embedding.n_frames or seq
    return f"one sound of {frames:,} {'samples' if spec.embedding.d_frame == 1 else 'frames'}"


def _memory(spec: ModelSpec, run: Run) -> tuple[dict[str, Held], dict[str, str]]:
    """What one device holds in the modes of which that is known, and why not in the others."""
    found, unknown = {}, {}
    for mode in MODES:
        try:
            found[mode] = _held(spec, run.changed(mode=mode))
        except Refused as error:
            unknown[mode] = str(error)
    return found, unknown


def _held(spec: ModelSpec, run: Run) -> Held:
    """What one device holds; in kernels of a server where it is not known of the usual ones."""
    from calc.memory.verdict import holders, verdict

    execution: ExecutionName | None = None
    try:
        peak = verdict(spec, run).worst.peak
    except Refused as error:
        if error.field != "execution":
            raise
        execution = "compiled"
        peak = verdict(spec, run.changed(execution=execution)).worst.peak
    own = (run.dtype if run.mode == "inference" else run.recipe).partition("-")[0]
    return Held(peak, tuple(holders(peak, own if own in PLAIN else None)), execution)


def _verdict(
    spec: ModelSpec, components: Mapping[str, int], active: Mapping[str, int], training: int, seq: int, read: str
) -> str:
    """One line that says what kind of model this is and what a token, or what is read (`read`), costs."""
    total, visited = sum(components.values()), sum(active.values())
    dense = f"Dense, {si(total)} parameters"
    kind = f"Mixture of experts, {si(visited)} of {si(total)} active" if visited < total else dense
    if not spec.reads_tokens:
        return f"{kind}; {read} costs {si(training, 'FLOP')} to train on"
    token = si(training / seq, "FLOP")
    if not spec.decodes:
        return f"{kind}; a token costs {token} to train on; no KV cache"
    cache = kv_cache(spec, 1, 1)
    cached = f"{binary(cache.bytes_per_token)} of KV cache"
    if (source := source_length(spec, 1)) is not None:
        cached += f", and {binary(cache.state_bytes)} for {'a token of ' * (source == 1)}its source"
    return f"{kind}; a token costs {token} to train on, {cached}"
