"""Which model of a device a kernel is asked of, and the question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from calc.errors import Refused
from calc.sizes import is_array, log2, maximum
from calc.spec.run import ExecutionName
from calc.time.cluster.crossing import Crossing
from calc.time.device.priors import priors
from calc.time.device.speed import Speed
from calc.time.device.speed_of import starts_at_once
from calc.time.kernels.attention_choice import ask_attention, ask_batched
from calc.time.kernels.device_models import Choice, documented, find
from calc.time.kernels.kernel import Kernel, Send, width_of
from calc.trace.functions import Attend, Matmul

FUSED = ("compiled", "graph")
"""Ways to run in which one kernel holds what stands between products."""


def model_of(kernel: Kernel, speed: Speed, execution: ExecutionName, network: float | None) -> Choice:
    """The model of `speed` that knows a kernel, or that of its datasheet where none does.

    network: bytes/s of one GPU beyond its domain of fast links. Errors: Refused where nothing is known.
    """
    inside = (_ask_experts(kernel, speed) or _ask_recurrence(kernel, speed)) if execution in FUSED else None
    if inside is not None:
        return inside
    if isinstance(kernel.shape, Matmul):
        return _ask_gemm(kernel, kernel.shape, speed, execution)
    if isinstance(kernel.shape, Send):
        return ask_collective(kernel.shape, speed, network, execution)
    if isinstance(kernel.shape, Attend):
        if kernel.function != "attention":
            return ask_batched(kernel, kernel.shape, speed)
        return ask_attention(kernel, kernel.shape, speed)
    return _ask_pass(kernel, speed, execution)


def _of_engines(speed: Speed) -> bool:
    """Whether its kernels were measured as engines that serve run them, not by this project's harness."""
    return documented(speed) and not speed.steps


WHOLE = 1e-9
"""Share of a number of tokens that is taken for rounding."""


NOTHING = (("nothing", ""), None, (0.0,))
"""Table and key, model and question of what takes no time of its own."""


def _ask_experts(kernel: Kernel, speed: Speed) -> Choice | None:
    """A product of experts, as its part of the time of their layer, which what stands between the products is in too;
    None where that was not measured, or for training, whose kernels are others."""
    name = kernel.packed or kernel.dtype
    if kernel.trains or not (kernel.routed or kernel.within) or not speed.experts:
        return None
    if kernel.routed is None:
        # Passes are in a wider format than products: of whichever format experts are, their time holds them.
        return Choice(*NOTHING, "experts", 0.0, widen=(1.0, 1.0))
    one = kernel.routed
    sizes = (one.tokens, one.hidden, one.inter, one.experts, one.top_k, one.tp, one.ep, one.skew)
    question = (*sizes, float(one.products > 2))
    # Checkpoints are published with one scale a matrix and with one a block, and an engine's kernels for one of the two
    # can take several times as long (one scale, on Hopper): a server is given the other.
    known = [each for each in (name, f"{name}_block") if each in speed.experts]
    if not known:
        return None
    name = known[0]
    if len(known) > 1:
        name = min(known, key=lambda each: float(speed.experts[each].seconds(*question)))
    return Choice(("experts", name), speed.experts[name], question, "experts", 1 / one.products)


RECURRENCES = {
    "delta_rule": ("delta_rule", ""),
    "convolution": ("convolution", ""),
    "scan_convolution": ("convolution", ".mamba"),
}
"""Kind of a recurrence's kernel -> the table of a device that knows it, and what a model's name ends in there."""


def _ask_recurrence(kernel: Kernel, speed: Speed) -> Choice | None:
    """A recurrence's kernel, or nothing for what runs within it; None where that was not measured, or for training,
    whose kernels are others."""
    one = kernel.recurrence
    if kernel.trains or one is None:
        return None
    field, behind = RECURRENCES[one.kind]
    name = f"{kernel.dtype}{behind}{'.decode' * kernel.decode}"
    model = getattr(speed, field).get(name)
    if model is None:
        return None
    if not one.whole:
        return Choice(*NOTHING, "recurrence", 0.0, widen=(1.0, 1.0))
    question = (one.batch, one.seq, one.heads, one.key_heads, one.d_key, one.d_value)
    return Choice((field, name), model, question, "recurrence")


def _ask_gemm(kernel: Kernel, shape: Matmul, speed: Speed, execution: ExecutionName) -> Choice:
    """A product, or, in the graphs of serving engines, its part of the one product that all make that read the same."""
    if kernel.trains and _of_engines(speed) and width_of(kernel.dtype) < 2:
        # Tables of serving engines hold what quantizes the tokens; trainings fuse that into the op ahead.
        speed = speed.published
    use = f"{kernel.dtype}.{'batched' if not shape.weighed else kernel.use}"
    latent = (f"{kernel.dtype}.latent",) * (shape.weighed and shape.groups > 1 and kernel.routed is None)
    names = (*latent, *(f"{kernel.dtype}.biased",) * (kernel.biased and kernel.use == "forward"), use, kernel.dtype)
    known = speed.basis != "datasheet" and starts_at_once(speed, kernel.packed, kernel.dtype)
    packed = kernel.packed if known else ""
    name, model, prior = find(lambda one: one.gemm, (packed, *names) if packed else names, speed, kernel.dtype)
    # Experts' tokens come in whole numbers; an expectation a hair above one is that one.
    wide = max(kernel.merged, shape.n) if execution == "graph" and not kernel.trains else shape.n
    question = (-(-(shape.m * (1 - WHOLE)) // 1), -(-wide // 1), -(-shape.k // 1), shape.groups)
    key, columns = ("gemm", f"{name}{'?' * prior}"), tuple(map(float, question))
    one = Choice(key, model, columns, f"gemm {kernel.dtype}", shape.n / wide, prior)
    return one if kernel.weight_bytes is None or packed else _packed(kernel, shape, one)


def _packed(kernel: Kernel, shape: Matmul, one: Choice) -> Choice:
    """A product whose matrix has fewer bits than its factors: its bytes take less time, less well used.

    Where tokens are many and products, not bytes, take the time, unpacking comes on top and nothing is saved.
    """
    plain = shape.k * shape.n * shape.groups * width_of(kernel.dtype)
    part = (kernel.weight_bytes or plain) / plain
    table = priors()["quantized"]
    reached = table["8"] if part > 0.4 else table["4"]
    rows = min(max((shape.m - 16) / 240, 0.0), 1.0)
    scale = (1 - rows) * min(part / reached, 1.0) + rows
    return replace(one, scale=one.scale * scale, prior=True, widen=(table["low"], table["high"]))


def has_link(speed: Speed, op: str) -> bool:
    """Whether anything is known of how GPUs of a node reach one another."""
    return op in speed.collectives or (documented(speed) and bool(speed.published.collectives))


def ask_collective(shape: Send, speed: Speed, network: float | None, execution: ExecutionName) -> Choice:
    """The model of a collective within a domain of fast links, or beyond, where GPUs without links of their own are at
    once.

    Errors: Refused where nothing is known of links.
    """
    if (measured := _ask_exchange(shape, speed)) is not None:
        return measured
    linked = has_link(speed, shape.op)
    if network is not None and (shape.beyond or not linked):
        link = None if speed.device is None else speed.device.link_one_way
        far = Crossing(shape.op, network, link)
        question = (shape.bytes, shape.ranks, shape.near if linked else 1, shape.once)
        return Choice(("collective", f"{shape.op} beyond, {network!r}"), far, question, "network", 1.0, True)
    if not linked:
        expected = f"one rank, or --network: {speed.name} has no known link to others"
        raise Refused("plan", expected, f"{shape.op} of {shape.ranks}")
    # Graphs of serving engines hold kernels of their own for sums of few bytes (one write to all, no ring), on links
    # whose rate is known: over others, where only measurements tell it, these stand.
    own = execution == "graph" and shape.op == "all_reduce" and shape.op in speed.published.collectives
    prior = own or shape.op not in speed.collectives
    model = (speed.published if prior else speed).collectives[shape.op]
    prior = prior or speed.basis == "datasheet"
    name = f"{shape.op}{'?' * prior}"
    if prior and execution == "graph":
        # In the model latency grows with the logarithm of ranks, so that each number of them has a model of its own.
        steps = maximum(1.0, log2(shape.ranks))
        model = model.model_copy(update={"latency": priors()["network"]["graph_latency"] / steps})
        name = name if is_array(shape.ranks) else f"{name} of {shape.ranks} in a graph"
    return Choice(("collective", name), model, (shape.bytes, shape.ranks), "network", 1.0, prior)


SENT_BACK = "combine.throughput"
"""What was measured of DeepEP in 16 bits. Its dispatch in the same tables takes half as long for rows of 7,168 numbers,
as 8 bits would; trainings send 16 both ways, and back a dispatch is a combine."""


def by_deepep(shape: Send, speed: Speed) -> bool:
    """Whether DeepEP sends experts' tokens there, and was measured to."""
    return shape.exchange is not None and speed.name in shape.exchange.gpus and SENT_BACK in speed.exchange


def _ask_exchange(shape: Send, speed: Speed) -> Choice | None:
    """Experts' tokens as DeepEP's throughput kernels send them; None where it does not, or was not measured."""
    one = shape.exchange
    if not by_deepep(shape, speed) or one is None:
        return None
    question = (one.tokens, one.hidden, one.top_k, one.experts, one.ranks, one.sms)
    return Choice(("exchange", SENT_BACK), speed.exchange[SENT_BACK], question, "network")


SAME_BACK = ("accumulate", "copy", "fill", "sum", "transpose")
"""Passes that going back runs as they are, and that have no other way back."""


def _ask_pass(kernel: Kernel, speed: Speed, execution: ExecutionName) -> Choice:
    """A pass over memory: as it was measured run by PyTorch, or, fused into one kernel, as a copy of its bytes."""
    back = kernel.direction == "backward" and kernel.function not in SAME_BACK
    own = kernel.function + (".backward" if back else "")
    fused = execution in FUSED and kernel.function not in ("adamw", "gather")
    names = ("copy",) if fused else (own, "copy")
    formats = (kernel.dtype, "bf16", "fp16", "fp32")
    for dtype in formats:
        table = speed.passes.get(dtype, {})
        for name in names:
            if name not in table:
                continue
            if name == "copy" and own != "copy":
                moved = kernel.bytes if fused or kernel.traffic is None else kernel.traffic
                guessed = not fused or speed.basis == "datasheet"
                launches = 1.0 if fused else max(kernel.launches, 1.0)
                return Choice(("pass", f"{dtype} copy"), table[name], (moved / launches,), "pass", launches, guessed)
            nbytes = kernel.bytes if kernel.profiled_bytes is None else kernel.profiled_bytes
            return Choice(("pass", f"{dtype} {name}"), table[name], (nbytes,), "pass", 1.0, speed.basis == "datasheet")
    if documented(speed):
        return _ask_pass(kernel, speed.published, execution)
    raise Refused("--profile", f"a profile with passes over memory in {kernel.dtype}", speed.name)


def _attention(model: Any, columns: Any) -> Any:
    *sizes, causal, window = columns
    return model.seconds(*sizes, causal, window)


def _decode(model: Any, columns: Any) -> Any:
    batch, heads, kv_heads, context, d_head, window, d_value, latent = columns
    return model.seconds(batch, heads, kv_heads, context, d_head, window, d_value, latent)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "gemm": lambda model, columns: model.seconds(*columns),
    "pass": lambda model, columns: model.seconds(*columns),
    "attention": _attention,
    "attention_backward": _attention,
    "decode": _decode,
    "collective": lambda model, columns: model.seconds(*columns),
    "exchange": lambda model, columns: model.seconds(*columns),
    "experts": lambda model, columns: model.seconds(*columns),
    "delta_rule": lambda model, columns: model.seconds(*columns),
    "convolution": lambda model, columns: model.seconds(*columns),
    "nothing": lambda model, columns: columns[0],
}
"""Kind of model -> (model, a column for each argument) -> seconds."""
