"""What kernels made for recurrences keep, where everything is fused: what they read, and not the states, which they
compute again in backward."""

from __future__ import annotations

from typing import NamedTuple

from calc.sizes import Size
from calc.spec import DeltaNet, Kda
from calc.trace.op import Weight
from calc.trace.primitives.recurrence import negative_exponential
from calc.trace.tape import Storage, Tape


def saved_by_scan_kernel(tape: Tape, fade: Weight, mixed: Storage, dt: Storage, elements: Size) -> Storage:
    """Mamba-2's convolution and scan as one function: it keeps what the projection gave, where x, b, c and the step
    sizes lie (the convolution keeps it as well), and how fast states fade. The result has so many elements.

    Source: mamba-ssm 2.3.2, ops/triton/ssd_combined.py, MambaSplitConv1dScanCombinedFn, as Megatron-Core calls it. A
    norm behind it is a kernel of its own there; transformers has it inside, and keeps one tensor of the result less.
    """
    grad = mixed.grad or dt.grad or fade.trainable
    with tape.at("scan"):
        if grad:
            tape.keep(dt, "step sizes")
            tape.keep(negative_exponential(tape, fade), "decays")
    return Storage(elements, tape.settings.dtype, grad, "tensor")


def saved_by_delta_kernel(
    tape: Tape, spec: DeltaNet, tokens: Size, own: tuple[Weight, ...], mixed: Storage, rate: Storage, decay: Storage
) -> Storage:
    """The gated delta rule: beside what both rules keep, a sum of decays a head and the inverse of each chunk.

    Source: flash-linear-attention 0.5.2, ops/gated_delta_rule/chunk.py, ChunkGatedDeltaRuleFunction.
    """
    rows = tokens * spec.n_value_heads
    kept = _Rule(rows, spec.d_key, spec.d_value, sums=rows, pairs=rows * spec.chunk)
    return _saved_by_rule(tape, kept, own, mixed, rate, decay)


def saved_by_channel_kernel(
    tape: Tape, spec: Kda, tokens: Size, own: tuple[Weight, ...], mixed: Storage, rate: Storage, decay: Storage
) -> Storage:
    """The delta rule with a decay for each channel: beside what both rules keep, decays and their sums, and of each
    chunk its inverse and what queries see of keys.

    Source: flash-linear-attention 0.5.2, ops/kda/chunk.py, ChunkKDAFunction, given decays as transformers 5.23 does.
    """
    rows = tokens * spec.n_heads
    kept = _Rule(rows, spec.d_head, spec.d_head, sums=2 * rows * spec.d_head, pairs=2 * rows * spec.chunk)
    return _saved_by_rule(tape, kept, own, mixed, rate, decay)


class _Rule(NamedTuple):
    """rows: heads of all tokens. sums: numbers of decays, in fp32; pairs: of chunks, in the format of products."""

    rows: Size
    d_key: Size
    d_value: Size
    sums: Size
    pairs: Size


def _saved_by_rule(
    tape: Tape, rule: _Rule, own: tuple[Weight, ...], mixed: Storage, rate: Storage, decay: Storage
) -> Storage:
    """Units of queries and keys, laid out for every head of values, with their lengths; a copy of the values; learning
    rates; and what the pointwise kernels ahead read, which make rates and decays of projections."""
    dtype, (step, fade) = tape.settings.dtype, own
    grad = any((mixed.grad, rate.grad, decay.grad, step.trainable, fade.trainable))

    def keep(elements: Size, role: str, number_format: str = dtype) -> None:
        tape.keep(Storage(elements, number_format, grad, "tensor"), role)

    with tape.at("rule"):
        for read in (rate, decay):
            tape.reads_input(read)
        negative_exponential(tape, fade)
        if grad:
            for name in ("queries", "keys"):
                keep(rule.rows * rule.d_key, f"units of {name}")
                keep(rule.rows, f"lengths of {name}", "fp32")
            keep(rule.rows * rule.d_value, "values")
            keep(rule.rows, "learning rates")
            keep(rule.sums, "decays", "fp32")
            keep(rule.pairs, "pairs of chunks")
    return Storage(rule.rows * rule.d_value, dtype, grad, "tensor")
