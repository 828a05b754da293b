"""One layer of a model, forward or backward."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from calc.blocks.build import build
from calc.spec import ModelSpec
from calc.spec.fields import DeviceKind, Dim
from calc.spec.run import Run
from calc.trace.gradients import backward
from calc.trace.part import Leaf, leaves
from harness.cases.case import Case, Counts, Ready
from harness.cases.forecasts import of_model
from harness.cases.models import routed, spec_of
from harness.cases.running import (
    Execution,
    built,
    cannot_compile,
    kernel_of,
    other_kernel,
    serving_bytes,
    tolerance_of,
)
from harness.cases.tensors import no_gradient, normal, relative, settle
from harness.record import Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.time.device.profile import Profile


@dataclass(frozen=True)
class LayerCase(Case):
    """The first layer of a model on vectors [batch, seq, d_model].

    direction: `backward` is the gradients alone, of the vectors and of the layer's weights.
    """

    kind = "layer"
    model: str
    seq: Dim
    batch: Dim = 1
    dtype: Literal["fp32", "bf16"] = "bf16"
    execution: Execution = "sdpa"
    direction: Literal["forward", "backward"] = "forward"

    def __post_init__(self) -> None:
        spec = spec_of(self.model)
        self.require("model", spec.reads_tokens and spec.encoder is None, "a model of one stack that reads tokens")

    @property
    def spec(self) -> ModelSpec:
        """The model with this one layer, and no more of a vocabulary than it needs to exist."""
        whole = spec_of(self.model)
        group = whole.layers[0].model_copy(update={"count": 1})
        return whole.model_copy(update={"layers": (group,), "schedule": None, "vocab_size": 64, "mtp": None})

    def counts(self) -> Counts:
        count = (lambda op: op.flops) if self.direction == "forward" else backward
        return {
            "flops": sum(count(leaf.op) * leaf.calls for leaf in self._leaves()),
            "tokens": self.batch * self.seq,
        }

    def _leaves(self) -> Sequence[Leaf]:
        load = Run(batch=self.batch, seq=self.seq).load()
        return [leaf for leaf in leaves(build(self.spec, load)) if leaf.layer is not None]

    def memory(self) -> float:
        copies = 4.0 if self.direction == "backward" else 1.0
        return copies * serving_bytes(self.spec, self.dtype, self.batch, self.seq, self.execution)

    def forecast(self, profile: Profile) -> Forecast | None:
        words: dict[str, Any] = {"phase": "forward", "dtype": self.dtype}
        if self.direction == "backward":
            words = {"phase": "training", "dtype": self.dtype, "directions": ("backward",)}
        sizes = {"batch": self.batch, "seq": self.seq, "execution": self.execution}
        return of_model(profile, self.spec, within="layers", **sizes, **words)

    def ready(self, device: DeviceKind) -> Ready:
        import torch

        from reference_models import Step

        settle(self.dtype)
        spec = self.spec
        layer = built(spec, device, self.dtype).layers[0]
        x = normal(self.batch, self.seq, spec.d_model, dtype=self.dtype, device=device).requires_grad_()
        gradient = normal(*x.shape, dtype=self.dtype, device=device, seed=1)
        positions, used = torch.arange(self.seq, device=device)[None], kernel_of(self.execution)

        def plain(x: Tensor, layer: Any = layer, kernel: Any = used) -> Tensor:
            return layer(x, Step(positions, kernel=kernel, stream=x))

        forward = plain
        if self.execution == "compiled":
            cannot_compile(device)
            forward = torch.compile(plain, dynamic=False)

        def right() -> list[Tensor]:
            wide, y = deepcopy(layer).double(), x.detach().double().requires_grad_()
            out = plain(y, wide, other_kernel(self.execution))
            if self.direction == "forward":
                return [out]
            return list(torch.autograd.grad(out, (y, *wide.parameters()), gradient.double()))

        run: Any = no_gradient(lambda: forward(x))
        if self.direction == "backward":
            from torch._functorch import config

            read = (x, *layer.parameters())
            # A compiled backward pass may otherwise write into what forward kept, and then runs only once.
            with config.patch(donated_buffer=False):
                out = forward(x)
            run = lambda: torch.autograd.grad(out, read, gradient, retain_graph=True)  # noqa: E731
        return Ready(
            run=run,
            check=lambda: _largest(run(), right()),
            tolerance=tolerance_of(spec, self.dtype),
            graphable=self.direction == "forward" and not routed(spec),
        )


def _largest(found: Any, right: list[Tensor]) -> float:
    """The error of all results together: gradients of single biases may be rounding alone."""
    import torch

    mine = [found] if len(right) == 1 else found
    return relative(*(torch.cat([each.detach().double().flatten() for each in some]) for some in (mine, right)))
