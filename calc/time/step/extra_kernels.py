"""What a step runs beside the ops of the tree: copies, casts, the loss, sums of gradients, the optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from calc.memory.sharding import Stage
from calc.memory.stepping import moved_by_copies
from calc.sizes import Size, at_least, is_array, rounded
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.spec.run.optimizers import optimizer
from calc.time.kernels.kernel import Kernel, pass_bytes, width_of
from calc.time.step.formats import number_formats
from calc.time.step.network import Held, table_elements
from calc.trace.functions import Attend, Matmul

LOSS = {2: ((3, 14), (4, 22)), 4: ((2, 8), (3, 16))}
"""Width of logits -> (kernels, bytes a logit) of cross-entropy in PyTorch, forward and back: a copy in fp32 where they
are narrower, log-probabilities, and what is picked of them; back zeros, the logits' gradient, and a copy."""


def around(kernels: Iterable[Kernel], spec: ModelSpec, run: Run) -> Iterator[Kernel]:
    """`kernels` of the ops of one pass, and between them what PyTorch runs because of how they are joined."""
    for kernel in kernels:
        yield kernel
        if kernel.direction == "backward" and kernel.use == "dgrad" and _weighed(kernel):
            yield from _joined(kernel, run)
        if kernel.function == "values" and kernel.direction != "backward" and run.new_tokens > 1:
            yield _turned(kernel)
        if _casts(run) and _weighed(kernel) and kernel.use != "dgrad":
            yield _cast(kernel, run)
        if kernel.use == "wgrad" and _weighed(kernel) and run.stack is not None and run.stack.accumulates:
            yield _added(kernel, run)
        if run.trains and _weighed(kernel) and width_of(kernel.dtype) < 2:
            yield from _quantized(kernel, run, 1 if spec.adapter is not None else 2)
        if run.trains and kernel.logits and kernel.use == "forward" and kernel.direction == "forward":
            yield from _loss(kernel, run)


def _casts(run: Run) -> bool:
    """Whether weights are cast in every pass: not where they are quantized once a step."""
    formats = number_formats(run)
    once = run.trains and formats.recipe is not None and formats.recipe.inputs is not None
    return formats.casts and not once


def _weighed(kernel: Kernel) -> bool:
    return isinstance(kernel.shape, Matmul) and kernel.shape.weighed


def _plain(kernel: Kernel, function: str, elements: float, dtype: str) -> Kernel:
    """A pass over so many elements beside a product."""
    return kernel._replace(
        function=function,
        dtype=dtype,
        shape=None,
        use="forward",
        flops=0.0,
        bytes=float(pass_bytes(function, elements, width_of(dtype))),
        weight_bytes=None,
        traffic=None,
        launches=1,
    )


def _joined(kernel: Kernel, run: Run) -> Iterator[Kernel]:
    """Behind the gradient of a product's input, g [m, k] x W [k, n]."""
    shape, inner = kernel.shape, number_formats(run).compute
    inner = inner if width_of(inner) >= 2 else number_formats(run).stream
    assert isinstance(shape, Matmul)
    if kernel.again and not (run.stack is not None and run.stack.joins):
        yield _plain(kernel, "accumulate", shape.m * shape.n, inner)
    if kernel.cut:
        yield _plain(kernel, "copy", shape.m * shape.k, inner)
    if kernel.heads and run.execution == "eager":
        yield _plain(kernel, "transpose", shape.m * shape.k, inner)


def _turned(values: Kernel) -> Kernel:
    """Heads side by side again: [batch, heads, seq, d_value] -> [batch, seq, heads * d_value]."""
    shape = values.shape
    assert isinstance(shape, Attend)
    return _plain(values, "transpose", shape.groups * shape.heads * shape.queries * shape.d_value, values.dtype)


def _cast(kernel: Kernel, run: Run) -> Kernel:
    """A weight into the format of products, or its gradient back."""
    shape, formats = kernel.shape, number_formats(run)
    assert isinstance(shape, Matmul)
    n, k = (shape.n, shape.k) if kernel.use == "forward" else (shape.m, shape.n)
    # Weights that are gathered in fp8 are cast to it straight, others on their way through 16 bits.
    narrow = run.fp8_param_gather and kernel.use == "forward"
    inner = width_of(formats.compute) if narrow else max(width_of(formats.compute), 2.0)
    moved = shape.groups * n * k * (inner + width_of(formats.weights))
    return _plain(kernel, "copy", 0, formats.stream)._replace(bytes=float(moved))


def _added(kernel: Kernel, run: Run) -> Kernel:
    """What a product adds to the gradients of earlier micro-batches: it reads and writes these, as wide as they are
    summed, where it would else write its own result."""
    shape, formats = kernel.shape, number_formats(run)
    assert isinstance(shape, Matmul)
    width = 2 * width_of(formats.gradients) - width_of(formats.stream)
    size = float(shape.groups * shape.m * shape.n * width)
    return _plain(kernel, "accumulate", 0, formats.gradients)._replace(bytes=size)


def _quantized(kernel: Kernel, run: Run, copies: int) -> Iterator[Kernel]:
    """What a product in few bits reads, made of what is wider: the input, and going back the gradient of the result,
    each once along its rows and, where weights are trained, once along its columns (NVIDIA Transformer Engine's
    quantizers; weights are quantized once a step, with the optimizer). copies: one or both of them."""
    shape = kernel.shape
    assert isinstance(shape, Matmul)
    if kernel.use == "wgrad" or (kernel.use == "forward" and kernel.again):
        return
    stream = number_formats(run).stream
    elements = shape.groups * shape.m * shape.k
    size = float(elements * (width_of(stream) + copies * width_of(kernel.dtype)))
    yield _plain(kernel, "copy", 0, stream)._replace(bytes=size)


def _loss(logits: Kernel, run: Run) -> Iterator[Kernel]:
    """Cross-entropy over all logits, forward and back."""
    shape, formats = logits.shape, number_formats(run)
    assert isinstance(shape, Matmul)
    dtype = formats.compute if width_of(formats.compute) >= 2 else formats.stream
    forward = _plain(logits, "cross_entropy", shape.m * shape.n, dtype)._replace(path="loss", component="loss")
    back = forward._replace(direction="backward", bytes=2 * forward.bytes, profiled_bytes=forward.bytes)
    if run.fuses:
        yield from (forward, back)
        return
    for kernel, (kernels, bytes) in zip((forward, back), LOSS[int(width_of(dtype))], strict=True):
        yield kernel._replace(launches=kernels, traffic=float(shape.m * shape.n * bytes))


def update(spec: ModelSpec, run: Run, stage: Stage, held: Held) -> Iterator[Kernel]:
    """What follows all passes of a step on one rank: sums of gradients over micro-batches, and the optimizer, which
    steps through what ZeRO leaves of the rank's parameters.

    The optimizer reads and writes what the recipe keeps (`calc.memory.states`): weights, gradients, moments, and the
    wider copy of the weights where there is one. Copies of gradients that it steps with (`calc.memory.stepping`) are
    made before, and read in their place. What the host updates is left out (`calc.time.step.offloaded`).
    Sizes may be arrays; what some rows do without is called 0 times.
    """
    formats = number_formats(run)
    how = formats.recipe
    assert how is not None
    again = run.passes_a_step - 1
    fused = run.stack is not None and run.stack.accumulates
    if not fused and (is_array(again) or again):
        yield _whole("accumulate", accumulated_parameters(run, held), formats.gradients, again)
    both = stage.first * stage.last
    if spec.head is not None and spec.head.tied and (is_array(both) or both):
        shared = table_elements(spec) / run.tp
        calls = run.passes_a_step * both
        yield _whole("accumulate", shared, formats.gradients, calls)._replace(direction="backward")
    if run.offloaded == 1:
        return
    stepped = stepped_parameters(run, held) * (1 - float(run.offloaded))
    updated = how.updated
    moved = stepped * (2 * width_of(updated) + width_of(how.gradients) + moved_by_copies(run))
    moved = moved + 2 * optimizer(run.usual_optimizer).state_bytes(rounded(stepped), int(8 * width_of(updated)))
    if how.master is not None:
        # The wider copy's other half is read and written with the weights themselves, where that is all that is kept.
        alone = (1 - run.divides(3)) * run.keeps_remainders
        moved = moved + stepped * width_of(how.weights) * (1 - alone)
        if (its := run.narrow_weights) is not None:  # of which it writes what ranks then gather
            narrow = _shard(run, held.narrow, held.expert_narrow, at_least(run.zero, 1)) * (1 - float(run.offloaded))
            moved = moved + narrow * (float(its.sent) - width_of(how.weights))
    yield _whole("adamw", stepped, how.weights, 1)._replace(bytes=moved, profiled_bytes=moved)


def stepped_parameters(run: Run, held: Held) -> Size:
    """Parameters that a rank updates: what ZeRO leaves it of those that it trains."""
    return _shard(run, held.trained, held.expert_trained, at_least(run.zero, 1))


def accumulated_parameters(run: Run, held: Held) -> Size:
    """Parameters whose gradients a rank adds to those of earlier micro-batches: its part, where every pass ends by
    reducing them, all that it trains elsewhere."""
    return _shard(run, held.trained, held.expert_trained, run.reduces_each_pass)


def _shard(run: Run, whole: Size, in_experts: Size, divides: Size) -> Size:
    """Parameters of a rank, of which so many stand in experts that are spread, or its part of them where `divides` is
    1."""
    dense = (whole - in_experts) / (1 + (run.sharers() - 1) * divides)
    return dense + in_experts / (1 + (run.sharers(expert=True) - 1) * divides)


def _whole(function: str, elements: Size, dtype: str, calls: Size) -> Kernel:
    """A pass over all that a rank trains."""
    return Kernel(
        path="optimizer" if function == "adamw" else f"gradients.{function}",
        component="optimizer",
        function=function,
        direction="update",
        dtype=dtype,
        calls=calls * 1.0,
        bytes=pass_bytes(function, elements, width_of(dtype)),
    )
