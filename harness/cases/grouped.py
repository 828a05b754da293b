"""Products of routed experts: rows sorted by expert, each expert's with a matrix of its own, in one kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from calc.spec.fields import DeviceKind, Dim
from calc.time.kernels.single_kernel import matmul
from harness.cases.case import Case, Counts, Ready
from harness.cases.forecasts import of_kernel
from harness.cases.products import ready_product
from harness.cases.tensors import TOLERANCE, Turns, normal, relative, settle
from harness.record import Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.time.device.profile import Profile

Operands = tuple["Tensor", "Tensor", "Tensor"]
"""Rows [rows, k], matrices [experts, k, n], and where each expert's rows end [experts], int32."""


@dataclass(frozen=True)
class GroupedMatmulCase(Case):
    """`rows` vectors [k], each times the matrix [k, n] of the expert that it was sent to.

    routing: `balanced` gives every expert as many rows, as nearly as they divide; `uniform` sends each row to an expert
    drawn at random, the same in every run. rows: tokens times experts a token.
    """

    kind = "grouped_matmul"
    rows: Dim
    experts: Dim
    n: Dim
    k: Dim
    dtype: Literal["fp32", "bf16"] = "bf16"
    routing: Literal["balanced", "uniform"] = "uniform"
    cache: Literal["hot", "cold"] = "hot"  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        self.require("n", self.n % 16 == 0 and self.k % 16 == 0, "multiples of 16 for n and k")

    def counts(self) -> Counts:
        reached = sum(1 for each in self.rows_by_expert() if each)
        numbers = self.rows * (self.k + self.n) + reached * self.k * self.n
        return {"flops": 2.0 * self.rows * self.n * self.k, "bytes": float(numbers * self._width)}

    def memory(self) -> float:
        return 4.0 * self._width * (self.rows * (self.k + self.n) + self.experts * self.k * self.n)

    def forecast(self, profile: Profile) -> Forecast | None:
        # A kernel's model knows the mean number of rows; how they are divided is left to its interval.
        share = self.rows / self.experts
        kernel = matmul(share, self.n, self.k, self.dtype, self.experts)  # pyright: ignore[reportArgumentType]
        return of_kernel(profile, kernel, "graph" if profile.kind == "cuda" else "eager")

    def rows_by_expert(self) -> list[int]:
        """How many rows each expert has."""
        if self.routing == "balanced":
            share, more = divmod(self.rows, self.experts)
            return [share + (i < more) for i in range(self.experts)]
        import random

        drawn = random.Random(0).choices(range(self.experts), k=self.rows)
        found = [0] * self.experts
        for each in drawn:
            found[each] += 1
        return found

    def ready(self, device: DeviceKind) -> Ready:
        import torch

        settle(self.dtype)
        multiply = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
        if multiply is None:
            raise NotImplementedError("this PyTorch has no grouped_mm")
        turns = Turns(lambda seed: self._operands(device, seed), self.counts()["bytes"], device, self.cache == "cold")

        def run(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
            return multiply(x, weights, offs=ends)

        return ready_product(turns, run, self._error, TOLERANCE[self.dtype])

    def _operands(self, device: DeviceKind, seed: int) -> Operands:
        import torch

        x = normal(self.rows, self.k, dtype=self.dtype, device=device, seed=2 * seed)
        shape = (self.experts, self.k, self.n)
        weights = normal(*shape, dtype=self.dtype, device=device, seed=2 * seed + 1, scale=self.k**-0.5)
        ends = torch.tensor(self.rows_by_expert(), device=device).cumsum(0).to(torch.int32)
        return x, weights, ends

    def _error(self, found: Tensor, x: Tensor, weights: Tensor, ends: Tensor) -> float:
        """Each expert's rows once more, in float64."""
        import torch

        begins = [0, *ends.tolist()]
        pieces = zip(begins, begins[1:], weights, strict=False)
        right = torch.cat([x[begin:end].double() @ matrix.double() for begin, end, matrix in pieces])
        return relative(found, right)

    @property
    def _width(self) -> int:
        return 4 if self.dtype == "fp32" else 2
