"""Matrix products in fp8, one scale a tensor, as recipes of training and engines run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from calc.spec.fields import DeviceKind, Dim
from calc.time.kernels.single_kernel import matmul
from harness.cases.case import Case, Counts, Ready
from harness.cases.forecasts import of_kernel
from harness.cases.products import ready_product
from harness.cases.tensors import Turns, normal, relative, settle
from harness.record import Environment, Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.time.device.profile import Profile
    from calc.time.kernels.kernel import Kernel

FIRST = (8, 9)
"""The compute capability from which NVIDIA's GPUs multiply fp8 (Ada)."""
LARGEST = 448.0
"""The largest number of e4m3."""


@dataclass(frozen=True)
class ScaledMatmulCase(Case):
    """A product [m, k] x [k, n] of e4m3 numbers with a scale for each operand; the result is in bf16.

    Both operands are rounded before, outside of the time. n and k: multiples of 16, as the kernels want them.
    """

    kind = "scaled_matmul"
    m: Dim
    n: Dim
    k: Dim
    dtype: Literal["fp8"] = "fp8"
    cache: Literal["hot", "cold"] = "hot"  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        for name in ("n", "k"):
            self.require(name, getattr(self, name) % 16 == 0, "a multiple of 16")

    def counts(self) -> Counts:
        return {"flops": 2.0 * self.m * self.n * self.k, "bytes": self._bytes()}

    def memory(self) -> float:
        # Operands are drawn in fp32 and multiplied once more in fp32.
        return self._bytes() + 8.0 * (self.m * self.k + self.k * self.n + self.m * self.n)

    def forecast(self, profile: Profile) -> Forecast | None:
        return of_kernel(profile, self._kernel(), "graph" if profile.kind == "cuda" else "eager")

    def unsupported(self, environment: Environment) -> str | None:
        if environment.device == "cuda" and _capability(environment) < FIRST:
            return f"fp8 products need compute capability {'.'.join(map(str, FIRST))}"
        return None

    def ready(self, device: DeviceKind) -> Ready:
        import torch

        settle("fp32")
        multiply = getattr(torch, "_scaled_mm", None)
        if multiply is None:
            raise NotImplementedError("this PyTorch has no _scaled_mm")
        turns = Turns(lambda seed: self._operands(device, seed), self._bytes(), device, self.cache == "cold")

        def run(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
            (a, scale_a), (b, scale_b) = first, second
            return multiply(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16)

        return ready_product(turns, run, _error, tolerance=2e-2)

    def _operands(self, device: DeviceKind, seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """[m, k] and [n, k] in e4m3, each with the scale that gives its numbers back."""
        a = normal(self.m, self.k, dtype="fp32", device=device, seed=2 * seed)
        b = normal(self.n, self.k, dtype="fp32", device=device, seed=2 * seed + 1, scale=self.k**-0.5)
        return _rounded(a), _rounded(b)

    def _bytes(self) -> float:
        return float(self.m * self.k + self.k * self.n + 2 * self.m * self.n)

    def _kernel(self) -> Kernel:
        return matmul(self.m, self.n, self.k, self.dtype)


def _rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    scale = x.abs().amax() / LARGEST
    return (x / scale).to(torch.float8_e4m3fn), scale


def _error(found: Tensor, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> float:
    """Against the product of the same rounded numbers in fp32: only sums and the result's format may differ."""
    a, b = (x.float() * scale for x, scale in (first, second))
    return relative(found, a @ b.t())


def _capability(environment: Environment) -> tuple[int, ...]:
    return tuple(int(part) for part in (environment.capability or "0").split("."))
