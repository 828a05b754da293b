"""Which model of attention a kernel is asked of: in the open, in one kernel, or of a token that decodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calc.spec.pairs import twice_seen_last
from calc.time.device.priors import priors
from calc.time.device.speed import Speed
from calc.time.kernels.device_models import Choice, find
from calc.time.kernels.kernel import Kernel
from calc.trace.functions import ATTENTION_BACK, Attend

FP8_CACHE = 0.5
"""Bytes of a cached number over those of one in 16 bits."""


def ask_batched(kernel: Kernel, shape: Attend, speed: Speed) -> Choice:
    """Scores or values in the open: a product for each head. Going back, gradients of weights are as scores are, those
    of queries, keys and values as values are."""
    back = kernel.direction == "backward"
    d = shape.d_value if kernel.function == "values" else shape.d_head
    as_scores = kernel.use == "dgrad" if back else kernel.function == "scores"
    n, k = (shape.keys, d) if as_scores else (d, shape.keys)
    names = (f"{kernel.dtype}.batched.backward",) * back + (f"{kernel.dtype}.batched", kernel.dtype)
    name, model, prior = find(lambda one: one.gemm, names, speed, kernel.dtype)
    question = (shape.queries, n, k, shape.groups * shape.heads)
    return Choice(("gemm", f"{name}{'?' * prior}"), model, tuple(map(float, question)), f"gemm {name}", 1.0, prior)


def ask_attention(kernel: Kernel, shape: Attend, speed: Speed) -> Choice:
    """Attention in one kernel. Errors: Refused for a format in which nothing is known of it."""
    batch = kernel.sequences if shape.groups % kernel.sequences == 0 else 1
    kv_heads, window = shape.groups / batch, 0 if shape.window is None else shape.window
    heads = kv_heads * shape.heads
    if kernel.decode and kernel.direction != "backward":
        return _ask_decode(kernel, shape, speed, (batch, heads, kv_heads, window))
    back = kernel.direction == "backward"
    table = "attention_backward" if back else "attention"
    tables = {"attention": lambda one: one.attention, "attention_backward": lambda one: one.attention_backward}
    names = _of_width(tables[table](speed), shape, _attention_names(kernel, shape))
    name, model, prior = find(tables[table], names, speed, kernel.dtype)
    sizes = (batch, heads, kv_heads, shape.queries, shape.keys, shape.d_head, shape.d_value)
    # Queries that a rank has of a sequence see, on average over ranks, as many keys as all do.
    share = _of_training(kernel, speed)
    if window and speed.kind == "cpu":
        # PyTorch's kernel for CPUs takes a window as a mask, and computes what that hides as well.
        shape, window = replace(shape, causal=False), 0
    if shape.causal and shape.queries < shape.keys and not kernel.decode:
        share *= _seen(kernel, shape)
    question = (*sizes, float(shape.causal), window)
    return Choice((table, f"{name}{'?' * prior}"), model, tuple(map(float, question)), table, share, prior)


def _ask_decode(kernel: Kernel, shape: Attend, speed: Speed, sizes: tuple[float, float, float, float]) -> Choice:
    batch, heads, kv_heads, window = sizes
    names = _of_width(speed.decode, shape, _attention_names(kernel, shape))
    name, model, prior = find(lambda one: one.decode, names, speed, kernel.dtype)
    # A cache in a format that was not measured takes as long as a shorter one: its bytes are what a token waits for.
    knows_cache = kernel.cached == 1 or "_cache" in name
    cached = 1.0 if knows_cache else kernel.cached
    question = (batch, heads, kv_heads, shape.keys * cached, shape.d_head, window * cached, shape.d_value)
    choice = Choice(
        ("decode", f"{name}{'?' * prior}"),
        model,
        (*map(float, question), float(shape.latent)),
        "attention",
        1.0,
        prior,
    )
    table = priors()["quantized"]
    return choice if knows_cache else replace(choice, prior=True, widen=(table["low"], table["high"]))


def _attention_names(kernel: Kernel, shape: Attend) -> tuple[str, ...]:
    """Names of models of attention, the most fitting first: with a cache in fewer bits, of latent attention."""
    short = kernel.cached == FP8_CACHE and not kernel.trains  # which keeps no cache
    caches = (f"{kernel.dtype}.fp8_cache", kernel.dtype) if short else (kernel.dtype,)
    latent = shape.latent or shape.d_head != shape.d_value
    return (*(f"{name}.latent" for name in caches * latent), *caches)


def _of_width(table: Mapping[str, Any], shape: Attend, names: Sequence[str]) -> tuple[str, ...]:
    """`names`, each ahead of which stands the kernel that a library runs for heads of that width instead of its usual
    one."""
    found: list[str] = []
    for name in names:
        own = [other for other in table if other == name or other.startswith(f"{name}@")]
        fitting = [other for other in own if float(shape.d_head) in getattr(table[other], "widths", ())]
        found += [*([] if name in fitting else fitting[:1]), name]
    return tuple(found)


def _of_training(kernel: Kernel, speed: Speed) -> float:
    """How much longer the kernels that PyTorch trains with take than those that were measured reading prompts."""
    if not kernel.trains or (speed.basis == "profile" and kernel.dtype in speed.attention_backward):
        return 1.0
    architecture = "" if speed.device is None else speed.device.architecture
    table = priors()["attention"]
    direction = "backward" if kernel.direction == "backward" else "forward"
    backends = table["backends"].get(architecture, {}).get(direction, {})
    return backends.get(kernel.backend, table["training"].get(architecture, 1.0))


def _seen(kernel: Kernel, shape: Attend) -> float:
    """FLOPs of the pairs that a kernel really computes over those that the last queries of a sequence would, within the
    same window."""
    width = 2.0 * shape.groups * shape.heads * (shape.d_head + shape.d_value)
    last = twice_seen_last(shape.queries, shape.keys, shape.window or shape.keys, 0) / 2
    return min(kernel.flops / (ATTENTION_BACK if kernel.direction == "backward" else 1.0) / (width * last), 1.0)
