"""Where the time of a model goes: seconds by component, as `calc.trace.op` names them, loss and optimizer beside.

Every module that stands for a component marks its forward pass with `record_function`, and one execution runs under
torch.profiler. What runs inside a mark is its component's, but for other marks within; what autograd runs going back
belongs to the component whose operation it is the gradient of, which the profiler tells by a number that both carry
(`sequence_nr`). On a GPU the time of kernels is added up, launches left out; on a CPU that of the host, and since the
profiler makes it longer, the sum is brought to what an execution takes without it.

torch is imported inside the functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from calc.spec.fields import DeviceKind
from calc.trace.op import Component

if TYPE_CHECKING:
    from torch import nn

MARK = "component:"
REST = "rest"
GRADIENT = "autograd::engine::evaluate_function"
UPDATE = "Optimizer.step"


def component_seconds(model: nn.Module, run: Callable[[], Any], device: DeviceKind) -> dict[str, float]:
    """Seconds of one execution of `run`, which runs `model`, by component, the largest first.

    What runs outside of the model is the loss where there is a backward pass, else `other`.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    run()
    alone = _shortest(run, device)
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    with _marked(model), profile(activities=activities) as profiler, record_function(MARK + REST):
        run()
        if device == "cuda":
            torch.cuda.synchronize()
    events = [each for each in profiler.events() or [] if each.device_type.name == "CPU"]
    found = _sums(events, "device_time_total" if device == "cuda" else "cpu_time_total")
    factor = 1e-6 if device == "cuda" else alone / max(sum(found.values()), 1e-12)
    return {name: value * factor for name, value in sorted(found.items(), key=lambda item: -item[1]) if value > 0}


def component_of(path: str, module: nn.Module) -> Component | None:
    """The component that a module of a reference model stands for; None for one that is a piece of another's."""
    from reference_models.blocks.linear import NormLayer
    from reference_models.layer import Layer

    if isinstance(module, NormLayer):
        return "norm"
    if isinstance(module, Layer) or not path:
        return "other"
    name = path.rpartition(".")[2]
    by_name: dict[str, Component] = {
        "embedding": "embedding",
        "position": "positional",
        "lm_head": "lm_head",
        "attention": "attention",
        "cross_attention": "attention",
        "mlp": "mlp",
        "macaron": "mlp",
        "router": "router",
        "moe": "routed_expert",
        "shared_expert": "shared_expert",
        "mtp": "mtp",
    }
    if name in by_name:
        return by_name[name]
    return "ssm" if hasattr(module, "new_cache") and "layers" in path and path.count(".") == 2 else None


@contextmanager
def _marked(model: nn.Module) -> Iterator[None]:
    """Have every module that stands for a component mark its forward pass."""
    from torch.profiler import record_function

    open_marks: list[Any] = []
    with ExitStack() as stack:
        for path, module in model.named_modules():
            component = "vision" if path.split(".")[0] == "vision" else component_of(path, module)
            if component is None:
                continue

            def begin(*_: Any, name: str = MARK + component) -> None:
                open_marks.append(record_function(name))
                open_marks[-1].__enter__()

            def end(*_: Any) -> None:
                open_marks.pop().__exit__(None, None, None)

            stack.callback(module.register_forward_pre_hook(begin).remove)
            stack.callback(module.register_forward_hook(end).remove)
        yield


def _sums(events: list[Any], unit: str) -> dict[str, float]:
    """Microseconds by component."""
    trains = any(event.name.startswith(GRADIENT) for event in events)
    rest = "loss" if trains else "other"
    made = _makers(events, rest)
    found: dict[str, float] = {}
    for event in events:
        label = _label(event, made)
        if label is None:
            continue
        if label == REST:
            # Of what stands outside of all marks only operations count, not what Python and autograd do between them.
            own = sum(getattr(each, unit) for each in event.cpu_children if each.name.startswith("aten::"))
            label = rest
        else:
            own = getattr(event, unit) - sum(getattr(each, unit) for each in _labelled_within(event, made))
        found[label] = found.get(label, 0.0) + max(own, 0.0)
    return found


def _makers(events: list[Any], rest: str) -> dict[tuple[int, int], str]:
    """(thread, number) of each operation that has a gradient -> the component within which it ran."""
    made: dict[tuple[int, int], str] = {}
    for event in events:
        if event.sequence_nr < 0 or not event.name.startswith("aten::"):
            continue
        above = event.cpu_parent
        while above is not None and not above.name.startswith((MARK, GRADIENT)):
            above = above.cpu_parent
        if above is not None and above.name.startswith(MARK):
            name = above.name.removeprefix(MARK)
            made[event.thread, event.sequence_nr] = rest if name == REST else name
    return made


def _label(event: Any, made: dict[tuple[int, int], str]) -> str | None:
    if event.name.startswith(MARK):
        return event.name.removeprefix(MARK)
    if event.name.startswith(GRADIENT):
        return made.get((event.fwd_thread, event.sequence_nr), "other")
    return "optimizer" if event.name.startswith(UPDATE) else None


def _labelled_within(event: Any, made: dict[tuple[int, int], str]) -> Iterator[Any]:
    """The outermost events inside that have a label of their own."""
    for each in event.cpu_children:
        if _label(each, made) is not None:
            yield each
        else:
            yield from _labelled_within(each, made)


def _shortest(run: Callable[[], Any], device: DeviceKind) -> float:
    """Seconds of the fastest of three executions."""
    import torch

    found = []
    for _ in range(3):
        started = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - started)
    return min(found)
