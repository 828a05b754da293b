"""What several processes do together: collectives, and training steps with batch or weights spread over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from calc.ask.estimate import estimate
from calc.spec.fields import Dim
from calc.time.kernels.single_kernel import exchange
from harness.cases.case import Case, Counts, Device, Ready
from harness.cases.forecasts import of_kernel, of_model
from harness.cases.running import ModelCase, built, inputs
from harness.cases.tensors import relative, settle
from harness.cases.training import DECAY, RATE
from harness.distributed import Group
from harness.record import Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.time.device.profile import Profile
    from reference_models import Model

MOST = 64
"""The most processes that a case starts."""


class _Together(Case):
    """What both kinds share. of_rank: (one execution, its check) on a rank that has joined the group."""

    ranks: int

    def of_rank(self, rank: int, device: Device) -> tuple[Callable[[], Any], Callable[[], float]]:
        raise NotImplementedError

    def _few(self) -> None:
        self.require("ranks", 2 <= self.ranks <= MOST, f"a whole number from 2 to {MOST}")

    @property
    def clock(self) -> Literal["host"]:
        return "host"

    def ready(self, device: Device) -> Ready:
        import torch

        if device == "cuda" and torch.cuda.device_count() < self.ranks:
            raise NotImplementedError(f"{self.ranks} GPUs, of which there are {torch.cuda.device_count()}")
        group = Group(self.kind, self.params, self.ranks, device)
        try:
            run, check = self.of_rank(0, device)
        except BaseException:
            group.close()
            raise
        return Ready(run=run, check=check, tolerance=1e-3, close=group.close)


@dataclass(frozen=True)
class CollectiveCase(_Together):
    """One collective in fp32. nbytes: of the whole message, as `calc.time.kernels.kernel.Send` says."""

    kind = "collective"
    op: Literal["all_reduce", "all_gather", "reduce_scatter"]
    nbytes: Dim
    ranks: Dim = 2

    def __post_init__(self) -> None:
        self._few()
        self.require("nbytes", self.nbytes % (4 * self.ranks) == 0, "a multiple of 4 bytes for each rank")

    def counts(self) -> Counts:
        return {"bytes": float(self.nbytes)}

    def memory(self) -> float:
        return 4.0 * self.nbytes * self.ranks

    def forecast(self, profile: Profile) -> Forecast | None:
        return of_kernel(profile, exchange(self.op, self.nbytes, self.ranks))

    def of_rank(self, rank: int, device: Device) -> tuple[Callable[[], Any], Callable[[], float]]:
        import torch
        import torch.distributed as dist

        settle("fp32")
        whole = self.nbytes // 4

        def given(of: int) -> Tensor:
            generator = torch.Generator(device).manual_seed(of)
            return torch.randn(
                whole // self.ranks if self.op == "all_gather" else whole, generator=generator, device=device
            )

        mine = given(rank)
        out = torch.empty(whole // self.ranks if self.op == "reduce_scatter" else whole, device=device)

        def run() -> Tensor:
            if self.op == "all_gather":
                _named("all_gather_single", "all_gather_into_tensor")(out, mine)
            elif self.op == "reduce_scatter":
                _named("reduce_scatter_single", "reduce_scatter_tensor")(out, mine)
            else:
                # In place, as gradients are summed; the mean, so that numbers stay as large however often it runs.
                dist.all_reduce(mine, dist.ReduceOp.AVG if device == "cuda" else dist.ReduceOp.SUM)
                return mine if device == "cuda" else mine.div_(self.ranks)
            return out

        def error() -> float:
            everything = [given(of).double() for of in range(self.ranks)]
            found = run()
            if self.op == "all_gather":
                return relative(found, torch.cat(everything))
            total = torch.stack(everything).sum(0)
            return relative(found, total / self.ranks if self.op == "all_reduce" else total.chunk(self.ranks)[rank])

        return run, error


@dataclass(frozen=True)
class ParallelTrainingCase(_Together, ModelCase):
    """A training step of several ranks, `batch` sequences on each, in fp32 with fused AdamW.

    strategy: `ddp`, every rank holds the model and gradients are averaged; `fsdp`, weights, gradients and optimizer
    are divided, layer by layer (FSDP2, `fully_shard`).
    """

    kind = "parallel_training"
    model: str
    seq: Dim
    batch: Dim = 1
    ranks: Dim = 2
    strategy: Literal["ddp", "fsdp"] = "ddp"

    def __post_init__(self) -> None:
        self._few()
        self.goes_on()
        self.fits("seq", self.seq)
        self.require("seq", self.seq > 1, "at least 2, so that there is a token to predict")

    def counts(self) -> Counts:
        sizes: dict[str, Any] = {"batch": self.batch * self.ranks, "seq": self.seq}
        flops = estimate(self.spec, "flops.training", **sizes).value
        return {"flops": float(flops), "tokens": float(self.batch * self.ranks * self.seq)}

    def memory(self) -> float:
        sizes: dict[str, Any] = {"batch": self.batch, "seq": self.seq}
        peak = float(estimate(self.spec, "memory.peak", recipe="fp32", **sizes).value)
        return peak * (self.ranks + 1)

    def forecast(self, profile: Profile) -> Forecast | None:
        asked: dict[str, Any] = {"batch": self.batch, "seq": self.seq, "recipe": "fp32", "execution": "sdpa"}
        asked |= {"dp": self.ranks, "zero": 3 if self.strategy == "fsdp" else 0}
        if profile.kind == "cpu":
            # Ranks on a CPU share its cores, which no profile of one process tells.
            return None
        return of_model(profile, self.spec, phase="training", **asked)

    def of_rank(self, rank: int, device: Device) -> tuple[Callable[[], Any], Callable[[], float]]:
        import torch
        import torch.distributed as dist

        settle("fp32")
        model = built(self.spec, device, "fp32")
        tokens = inputs(model, self.batch * self.ranks, self.seq)["inputs"]
        step = _step(self._spread(model, rank, device), tokens.chunk(self.ranks)[rank])

        def run() -> Tensor:
            loss = step()
            dist.all_reduce(loss)
            return loss / self.ranks

        def error() -> float:
            """Of the losses of two steps, the second of which tells what the first did to the weights."""
            torch.manual_seed(0)
            alone = _step(built(self.spec, device, "fp32"), tokens)
            return max(relative(run(), alone()) for _ in range(2))

        return run, error

    def _spread(self, model: Model, rank: int, device: Device) -> Any:
        if self.strategy == "ddp":
            from torch.nn.parallel import DistributedDataParallel

            return DistributedDataParallel(model, device_ids=[rank] if device == "cuda" else None)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(device, (self.ranks,))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)


def _step(model: Any, tokens: Tensor) -> Callable[[], Tensor]:
    """One training step; gives its loss."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)

    def step() -> Tensor:
        logits = model(tokens, kernel="sdpa").logits
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach().clone()

    return step


def _named(new: str, old: str) -> Callable[..., Any]:
    """A function of torch.distributed by its name of today, or by that which older versions know."""
    import torch.distributed as dist

    return getattr(dist, new, None) or getattr(dist, old)
