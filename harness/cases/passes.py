"""Passes over memory: the functions between products, run with the reference models' own modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from calc.spec.fields import DeviceKind, Dim
from calc.time.kernels.single_kernel import pass_over
from harness.cases.case import Case, Counts, Ready
from harness.cases.forecasts import of_kernel
from harness.cases.formulas import written_out
from harness.cases.tensors import TOLERANCE, Turns, element_bytes, no_gradient, relative, settle, torch_dtype
from harness.record import Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.time.device.profile import Profile
    from calc.time.kernels.kernel import Kernel
    from harness.profiling.passes import Made

PassFunction = Literal[
    "copy",
    "add",
    "scale",
    "layernorm",
    "rmsnorm",
    "gelu",
    "gelu_tanh",
    "relu",
    "silu",
    "sigmoid",
    "swiglu",
    "geglu",
    "rope",
    "softmax",
    "cross_entropy",
    "gather",
    "adamw",
]
FUNCTIONS: tuple[PassFunction, ...] = get_args(PassFunction)
ONE_WAY = ("copy", "add", "gather", "adamw")
"""What has no backward of its own, or one that writes a whole table."""
OPERANDS = 4
"""Tensors as large as the result that one set of inputs holds at most, gradients included."""


@dataclass(frozen=True)
class PassCase(Case):
    """One pass. elements: of the result; of `cross_entropy` the logits, of `adamw` the parameters.

    How they are divided into vectors is up to `harness.profiling.passes`, which a profile is measured with; it may
    round them down. direction: `backward` is the gradients alone, of what was read and of weights.
    """

    kind = "pass"
    function: PassFunction
    elements: Dim
    dtype: Literal["fp32", "bf16", "fp16"] = "bf16"
    direction: Literal["forward", "backward"] = "forward"
    cache: Literal["hot", "cold"] = "hot"  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        self.require("direction", self.direction == "forward" or self.function not in ONE_WAY, "forward")
        self.require("elements", self.elements >= 2**12, "at least 4,096, so that there are a few vectors")

    def counts(self) -> Counts:
        return {"bytes": self._kernel().bytes}

    def memory(self) -> float:
        # The optimizer holds weight, gradient, two moments and a copy for the check; the pool both of its halves.
        return 8.0 * OPERANDS * self.elements * element_bytes(self.dtype)

    def forecast(self, profile: Profile) -> Forecast | None:
        return of_kernel(profile, self._kernel(), "graph" if self._graphable and profile.kind == "cuda" else "eager")

    def ready(self, device: DeviceKind) -> Ready:
        settle(self.dtype)
        if self.function == "adamw":
            return self._optimizer(device)
        from harness.profiling.clock import Pool
        from harness.profiling.passes import PASSES

        pool = Pool(device, torch_dtype(self.dtype), 2 * OPERANDS * self.elements)
        made = PASSES[self.function].make(pool, self.elements)
        nbytes = self._kernel().bytes
        if self.direction == "backward":
            return self._backward(made, nbytes, device)
        turns = Turns(lambda _: made.make(), nbytes, device, self.cache == "cold")
        run = no_gradient(lambda: made.run(turns()))
        return Ready(
            run=run,
            check=lambda: self._error(made, run(), turns.now),
            tolerance=TOLERANCE[self.dtype],
            rotate=turns.rotate,
            graphable=self._graphable,
        )

    def _backward(self, made: Made, nbytes: float, device: DeviceKind) -> Ready:
        import torch

        def ahead(seed: int) -> tuple[Tensor, Any, Tensor]:
            item = made.make()
            out = made.run(item)
            generator = torch.Generator(device).manual_seed(seed)
            gradient = torch.randn(out.shape, generator=generator, device=device).to(out.dtype)
            return out, item, gradient

        turns = Turns(ahead, 3 * nbytes, device, self.cache == "cold")

        def run() -> Sequence[Tensor]:
            out, item, gradient = turns()
            return torch.autograd.grad(out, (*_tensors(item), *made.weights), gradient, retain_graph=True)

        def error() -> float:
            found = run()
            _, item, gradient = turns.now
            wide = [each.detach().double().requires_grad_() for each in _tensors(item)]
            right = torch.autograd.grad(written_out(self.function, made, wide), wide, gradient.double())
            return max(map(relative, found, right))

        return Ready(run=run, check=error, tolerance=TOLERANCE[self.dtype], rotate=turns.rotate)

    def _optimizer(self, device: DeviceKind) -> Ready:
        """The fused step over one matrix; its first is held against the closed form of Adam's first step."""
        import torch

        rate, decay = 1e-2, 0.1
        dtype, width = torch_dtype(self.dtype), 1024
        weight = torch.nn.Parameter(torch.randn(self.elements // width or 1, width, device=device).to(dtype))
        weight.grad = torch.randn_like(weight)
        optimizer = torch.optim.AdamW([weight], lr=rate, weight_decay=decay, fused=True)

        def error() -> float:
            before, gradient = weight.detach().double(), weight.grad
            assert gradient is not None
            optimizer.step()
            # Both moments are the gradient's own, so that their ratio is its sign.
            right = before * (1 - rate * decay) - rate * gradient.double().sign()
            return relative(weight, right)

        return Ready(run=optimizer.step, check=error, tolerance=TOLERANCE[self.dtype])

    def _error(self, made: Made, found: Tensor, item: Any) -> float:
        operands = [each.detach() for each in _tensors(item)]
        wide = [each.double() if each.is_floating_point() else each for each in operands]
        return relative(found, written_out(self.function, made, wide))

    @property
    def _graphable(self) -> bool:
        return self.direction == "forward" and self.function != "adamw"

    def _kernel(self) -> Kernel:
        return pass_over(self.function, self.elements, self.dtype, self.direction == "backward")


def _tensors(item: Any) -> tuple[Tensor, ...]:
    return item if isinstance(item, tuple) else (item,)
