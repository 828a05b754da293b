"""Collectives among ranks, and the exchanges of a model's layers that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from calc.spec.fields import DeviceKind, Dim
from calc.spec.run import Run
from calc.time.cluster.links import links_of
from calc.time.kernels.kernel import Send
from calc.time.models.collective import Collective as Name
from calc.time.step.network import between_ops
from calc.time.step.timed_run import timed_run
from harness.cases.case import Counts
from harness.cases.models import spec_of
from harness.cases.ranks import Collective, RankCase, RankExecution
from harness.cases.tensors import relative, settle

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class CollectiveCase(RankCase):
    """One collective in fp32; `send` goes from each rank to the next. nbytes: of the whole message, as
    `calc.time.kernels.kernel.Send` says. near: ranks of a node, None where all share one."""

    kind = "collective"
    op: Name
    nbytes: Dim
    ranks: Dim = 2
    near: Dim | None = None

    def __post_init__(self) -> None:
        self._few()
        self.require("nbytes", self.nbytes % (4 * self.ranks) == 0, "a multiple of 4 bytes for each rank")
        self.require("near", self.near is None or self.near < self.ranks, "fewer than all ranks")

    def counts(self) -> Counts:
        return {"bytes": float(self.nbytes)}

    def memory(self) -> float:
        return 4.0 * self.nbytes * self.ranks

    def collectives(self) -> Sequence[Collective]:
        return [Collective(self.op, float(self.nbytes), 1.0)]

    def of_rank(self, rank: int, device: DeviceKind) -> RankExecution:
        run, check = collective(self.op, self.nbytes // 4, rank, self.ranks, device)
        return RankExecution(run, check)


@dataclass(frozen=True)
class ExchangeCase(RankCase):
    """What the layers of a model exchange in a step of training, without the layers: keys, values and their gradients
    between context-parallel ranks, or tokens between experts' ranks, `batch` sequences of `seq` tokens in all."""

    kind = "exchange"
    model: str
    between: Literal["context", "experts"]
    seq: Dim
    batch: Dim = 1
    ranks: Dim = 2
    near: Dim | None = None

    def __post_init__(self) -> None:
        self._few()
        self.require("seq", self.seq % self.ranks == 0, "a multiple of the ranks")
        self.require(
            "model", bool(self.collectives()), f"a model whose layers exchange anything between {self.between}"
        )

    def counts(self) -> Counts:
        return {"bytes": sum(each.nbytes * each.calls for each in self.collectives())}

    def memory(self) -> float:
        return 8.0 * self.ranks * max(each.nbytes for each in self.collectives())

    def collectives(self) -> Sequence[Collective]:
        split = {"cp": self.ranks} if self.between == "context" else {"ep": self.ranks, "dp": self.ranks}
        words: dict[str, Any] = {"phase": "training", "batch": self.batch, "seq": self.seq, "recipe": "fp32", **split}
        return collectives_in(timed_run(spec_of(self.model), **words), self.model)

    def of_rank(self, rank: int, device: DeviceKind) -> RankExecution:
        whole = self.ranks * 4
        parts = [
            (collective(each.op, int(each.nbytes) // whole * self.ranks, rank, self.ranks, device), round(each.calls))
            for each in self.collectives()
        ]

        def run() -> None:
            for (once, _), calls in parts:
                for _ in range(calls):
                    once()

        return RankExecution(run, lambda: max(check() for (_, check), _ in parts))


def collectives_in(run: Run, model: str, beginning: str = "") -> list[Collective]:
    """The collectives within one pass of a run, equal ones together. beginning: of the paths of the ops before."""
    found: dict[tuple[str, float], float] = {}
    for kernel in between_ops(spec_of(model), run, links_of(run, None)):
        assert isinstance(kernel.shape, Send)
        if not kernel.path.startswith(beginning):
            continue
        key = kernel.shape.op, float(kernel.shape.bytes)
        found[key] = found.get(key, 0.0) + float(kernel.calls)
    return [Collective(op, nbytes, calls) for (op, nbytes), calls in found.items()]


def collective(
    op: str, elements: int, rank: int, ranks: int, device: DeviceKind, group: Any = None
) -> tuple[Callable[[], Tensor], Callable[[], float]]:
    """(one execution, its error) of a collective over so many fp32 numbers. group: of the ranks, None: all there are;
    `rank` is this one's within it."""
    import torch
    import torch.distributed as dist

    settle("fp32")
    share = elements // ranks

    def given(of: int) -> Tensor:
        generator = torch.Generator(device).manual_seed(of)
        return torch.randn(share if op == "all_gather" else elements, generator=generator, device=device)

    mine = given(rank)
    out = torch.empty(share if op == "reduce_scatter" else elements, device=device)
    after, before = (dist.get_global_rank(group, (rank + step) % ranks) if group is not None else (rank + step) % ranks
                     for step in (1, -1))  # fmt: skip

    def run() -> Tensor:
        if op == "all_gather":
            _named("all_gather_single", "all_gather_into_tensor")(out, mine, group=group)
        elif op == "reduce_scatter":
            _named("reduce_scatter_single", "reduce_scatter_tensor")(out, mine, group=group)
        elif op == "all_to_all":
            dist.all_to_all_single(out, mine, group=group)
        elif op == "send":
            both = [dist.isend(mine, after, group), dist.irecv(out, before, group)]
            for each in both:
                assert each is not None
                each.wait()
        else:
            # In place, as gradients are summed; the mean, so that numbers stay as large however often it runs.
            dist.all_reduce(mine, dist.ReduceOp.AVG if device == "cuda" else dist.ReduceOp.SUM, group)
            return mine if device == "cuda" else mine.div_(ranks)
        return out

    def error() -> float:
        everything = [given(of).double() for of in range(ranks)]
        mine.copy_(given(rank))
        return relative(run(), _right(op, everything, rank))

    return run, error


def _right(op: str, everything: list[Tensor], rank: int) -> Tensor:
    """What a rank is to have of a collective over these tensors, one of each rank."""
    import torch

    ranks = len(everything)
    if op == "all_gather":
        return torch.cat(everything)
    if op == "all_to_all":
        return torch.cat([each.chunk(ranks)[rank] for each in everything])
    if op == "send":
        return everything[(rank - 1) % ranks]
    total = torch.stack(everything).sum(0)
    return total / ranks if op == "all_reduce" else total.chunk(ranks)[rank]


def _named(new: str, old: str) -> Callable[..., Any]:
    """A function of torch.distributed by its name of today, or by that which older versions know."""
    import torch.distributed as dist

    return getattr(dist, new, None) or getattr(dist, old)
