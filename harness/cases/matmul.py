"""Matrix products, in the three layouts in which a dense layer runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from calc.spec.fields import DeviceKind, Dim
from calc.time.kernels.single_kernel import matmul
from harness.cases.case import Case, Counts, Ready
from harness.cases.forecasts import of_kernel
from harness.cases.products import ready_product
from harness.cases.tensors import TOLERANCE, Turns, normal, relative, settle
from harness.record import Environment, Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.time.device.profile import Profile
    from calc.time.kernels.kernel import Kernel

SAMPLE = 16
"""Rows of the result that are computed again in float64."""
USES = {"nt": "forward", "nn": "dgrad", "tn": "wgrad"}


@dataclass(frozen=True)
class MatmulCase(Case):
    """`batch` products [m, k] x [k, n].

    layout: how the operands lie in memory, t for transposed. `nt`: x [m, k] times W [n, k] turned, as forward runs it;
    `nn`: g [m, k] times W [k, n], the gradient of the input; `tn`: g [k, m] turned times x [k, n], that of the weight.
    dtype: `tf32` multiplies fp32 operands rounded to TF32. cache: `cold` where operands come from memory.
    """

    kind = "matmul"
    m: Dim
    n: Dim
    k: Dim
    batch: Dim = 1
    dtype: Literal["fp32", "tf32", "bf16", "fp16"] = "bf16"
    layout: Literal["nt", "nn", "tn"] = "nt"
    cache: Literal["hot", "cold"] = "hot"  # pyright: ignore[reportIncompatibleMethodOverride]

    def counts(self) -> Counts:
        kernel = self._kernel()
        return {"flops": kernel.flops, "bytes": kernel.bytes}

    def memory(self) -> float:
        # Operands are drawn in fp32, and the check multiplies a sample of rows with one of them in float64.
        wide = 8 * self.batch * self.n * self.k
        return 3 * self._kernel().bytes + wide

    def forecast(self, profile: Profile) -> Forecast | None:
        if self.dtype == "tf32":
            # Profiles hold products of fp32 at full precision, several times slower.
            return None
        return of_kernel(profile, self._kernel(), "graph" if profile.kind == "cuda" else "eager")

    def unsupported(self, environment: Environment) -> str | None:
        return "TF32 is a format of GPUs" if self.dtype == "tf32" and environment.device == "cpu" else None

    def ready(self, device: DeviceKind) -> Ready:
        settle(self.dtype)
        turns = Turns(lambda seed: self._operands(device, seed), self._kernel().bytes, device, self.cache == "cold")
        return ready_product(turns, lambda a, b: a @ b, self._error, TOLERANCE[self.dtype])

    def _operands(self, device: DeviceKind, seed: int) -> tuple[Tensor, Tensor]:
        """[batch, m, k] and [batch, k, n] as views of what lies in memory; without a batch they are matrices."""

        def lying(rows: int, columns: int, turned: bool, seed: int, scale: float = 1.0) -> Tensor:
            shape = (columns, rows) if turned else (rows, columns)
            shape = shape if self.batch == 1 else (self.batch, *shape)
            made = normal(*shape, dtype=self.dtype, device=device, seed=seed, scale=scale)
            return made.transpose(-2, -1) if turned else made

        first, second = (letter == "t" for letter in self.layout)
        a = lying(self.m, self.k, first, 2 * seed)
        return a, lying(self.k, self.n, second, 2 * seed + 1, self.k**-0.5)

    def _error(self, found: Tensor, a: Tensor, b: Tensor) -> float:
        """Of rows drawn at random, the one that is farthest off."""
        import torch

        rows = torch.randperm(self.m, generator=torch.Generator().manual_seed(1))[:SAMPLE].to(a.device)
        right = a[..., rows, :].double() @ b.double()
        made = found[..., rows, :]
        return max(relative(made[..., i, :], right[..., i, :]) for i in range(len(rows)))

    def _kernel(self) -> Kernel:
        dtype = "fp32" if self.dtype == "tf32" else self.dtype
        use = "batched" if self.batch > 1 else USES[self.layout]
        return matmul(self.m, self.n, self.k, dtype, self.batch, use)  # pyright: ignore[reportArgumentType]
