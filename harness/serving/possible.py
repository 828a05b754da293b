"""Rows that ask more of GPUs than their datasheets say they can do: no measurement of what the row says it is."""

from __future__ import annotations

from calc.errors import Refused
from calc.serve.rank import at
from calc.serve.service import Service
from calc.spec.hardware import Device
from harness.serving.rows import ServedRow

DISTINCT = 0.5
"""Of further tokens, those that at least choose experts for themselves."""


def check_possible(row: ServedRow, service: Service, reading: Service | None) -> None:
    """Errors: Refused for a row whose tokens come faster than what each needs can be read, or whose requests end
    faster than their products can be done, at all that memory and units have."""
    if row.ttft is None or row.tpot is None or not isinstance(service.device, Device):
        return
    making = row.tpot * (row.mean_output - 1)
    decoding = row.concurrency * making / (making + row.ttft) / max(row.decode_workers, 1)
    least = _bytes(service, decoding, row.mean_input) / float(service.device.bandwidth.value)
    if row.tpot < least:
        raise Refused("tpot", f"at least {least * 1e3:.3g} ms, in which the weights can be read", row.tpot * 1e3)
    if reading is not None:
        return
    peak = max(float(rate.value) for name, rate in service.device.known_peaks.items() if name in service.form.compute)
    needed = row.concurrency / (making + row.ttft) * _flops(service, row.mean_input + row.mean_output)
    if needed > peak * row.gpus:
        raise Refused("ttft", f"at most {peak * row.gpus:.3g} FLOP/s of products", f"{needed:.3g}")


def _bytes(service: Service, decoding: float, context: float) -> float:
    """Bytes that a step with so many sequences reads on the busiest GPU, stages of a pipeline one after the other."""
    rank = service.rank
    chance = rank.top_k / rank.n_experts if rank.n_experts else 0.0
    reached = rank.local * (1 - (1 - chance) ** (1 + max(decoding - 1, 0.0) * DISTINCT)) if chance else 0.0
    cache = float(at(rank.decode_bytes, context)) * decoding / rank.dp
    return rank.dense_bytes + rank.wide_bytes + rank.head_bytes + reached * rank.expert_bytes + cache


def _flops(service: Service, tokens: float) -> float:
    """FLOPs of the products of a request, all GPUs together."""
    matrices = service.work.matrices
    each = sum(
        x.elements(1) * x.calls * (service.work.top_k if x.expert else 1.0) for x in matrices if x.kind != "head"
    )
    return 2 * each * tokens
