"""Training steps of several ranks: batch, weights, layers or their widths spread over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from calc.ask.estimate import estimate
from calc.quantities.parameters import parameter_shapes
from calc.spec import ModelSpec
from calc.spec.fields import DeviceKind, Dim
from calc.spec.resizing import sizes_of
from calc.time.step.timed_run import timed_run
from harness.cases.case import Counts
from harness.cases.collectives import collectives_in
from harness.cases.ranks import Collective, RankCase, RankExecution
from harness.cases.running import ModelCase, built
from harness.cases.stages import pipelined, stage_alone
from harness.cases.steps import loss_of, stepping
from harness.cases.tensors import relative, settle

if TYPE_CHECKING:
    from torch import Tensor

Strategy = Literal["ddp", "fsdp", "tensor", "pipeline"]
WIDTH = 4
"""Bytes of a number in fp32."""


@dataclass(frozen=True)
class ParallelTrainingCase(RankCase, ModelCase):
    """A training step of several ranks in fp32 with AdamW.

    strategy: `ddp`, every rank holds the model and gradients are averaged; `fsdp`, weights, gradients and optimizer
    are divided, layer by layer (FSDP2, `fully_shard`); `tensor`, heads and feed-forward widths are divided
    (`parallelize_module`); `pipeline`, layers are (`torch.distributed.pipelining`, GPipe). batch: sequences of a rank,
    of a micro-batch of a pipeline, of all ranks of `tensor`. micro_batches: of a pipeline.
    """

    kind = "parallel_training"
    model: str
    seq: Dim
    batch: Dim = 1
    ranks: Dim = 2
    strategy: Strategy = "ddp"
    micro_batches: Dim | None = None
    near: Dim | None = None

    def __post_init__(self) -> None:
        self._few()
        self.goes_on()
        self.fits("seq", self.seq)
        self.require("seq", self.seq > 1, "at least 2, so that there is a token to predict")
        own = self.micro_batches is not None
        self.require("micro_batches", own == (self.strategy == "pipeline"), "a number for a pipeline, and for it alone")
        sizes = sizes_of(self.spec)
        if self.strategy == "tensor":
            divided = [sizes.get(name) for name in ("n_heads", "n_kv_heads", "d_ff")]
            self.require("ranks", all(n is None or n % self.ranks == 0 for n in divided), "a divisor of heads and d_ff")
        if self.strategy == "pipeline":
            self.require("ranks", int(self.spec.n_layers) % self.ranks == 0, "a divisor of the layers")
            self.require("model", not getattr(self.spec.head, "tied", False), "one whose head is not the token table")

    @property
    def sequences(self) -> int:
        """Of a step, on all ranks."""
        return self.batch * {"tensor": 1, "pipeline": self.micro_batches or 1}.get(self.strategy, self.ranks)

    def counts(self) -> Counts:
        flops = estimate(self.spec, "flops.training", batch=self.sequences, seq=self.seq).value
        return {"flops": float(flops), "tokens": float(self.sequences * self.seq)}

    def memory(self) -> float:
        sizes: dict[str, Any] = {"batch": self.sequences, "seq": self.seq}
        return float(estimate(self.spec, "memory.peak", recipe="fp32", **sizes).value) * (self.ranks + 1)

    @property
    def rounds(self) -> float:
        """A pipeline of p stages takes m + p - 1 turns for m micro-batches."""
        m = self.micro_batches
        return 1.0 if m is None else (m + self.ranks - 1) / m

    def collectives(self) -> Sequence[Collective]:
        words: dict[str, Any] = {"phase": "training", "batch": self.batch, "seq": self.seq, "recipe": "fp32"}
        if self.strategy == "tensor":
            # The vocabulary's two ends stay whole on every rank.
            return collectives_in(
                timed_run(self.spec, **words, tp=self.ranks, sequence_parallel=False), self.model, "layers."
            )
        if self.strategy == "pipeline":
            nbytes = float(self.batch * self.seq * int(self.spec.d_model) * WIDTH)
            # The first micro-batch forward and the last one backward pass every boundary while nobody else computes.
            return [Collective("send", nbytes, 2.0 * (self.ranks - 1))]
        if self.strategy == "ddp":
            return [Collective("all_reduce", float(sum(self._units().values()) * WIDTH), 1.0)]
        found = []
        for unit, parameters in self._units().items():
            # Layers are freed after forward and gathered again; what is around them stays, as `fully_shard` has it.
            gathers, nbytes = 2.0 if unit else 1.0, float(parameters * WIDTH)
            found += [Collective("all_gather", nbytes, gathers), Collective("reduce_scatter", nbytes, 1.0)]
        return found

    def _units(self) -> dict[str, int]:
        """Parameters of each layer by its path, of all others by an empty one, as `fully_shard` gathers them."""
        units: dict[str, int] = {}
        for path, shape in parameter_shapes(self.spec).items():
            inside = path.startswith("layers.")
            unit = ".".join(path.split(".")[:2]) if inside else ""
            units[unit] = units.get(unit, 0) + prod(shape)
        return units

    def of_rank(self, rank: int, device: DeviceKind) -> RankExecution:
        settle("fp32")
        tokens = self._tokens(device)
        if self.strategy == "pipeline":
            run = pipelined(built(self.spec, device, "fp32"), rank, self.ranks, tokens, self.micro_batches or 1)
        else:
            mine = tokens if self.strategy == "tensor" else tokens.chunk(self.ranks)[rank]
            run = stepping(built(self.spec, device, "fp32"), self.strategy, "ranks", self.ranks, mine, device)

        def error() -> float:
            """Of the losses of two steps, the second of which tells what the first did to the weights."""
            import torch

            torch.manual_seed(0)
            alone = stepping(built(self.spec, device, "fp32"), "none", "one", self.ranks, tokens, device)
            return max(relative(loss_of(run(), self.strategy, self.ranks), alone()) for _ in range(2))

        return RankExecution(run, error)

    def alone(self, rank: int, device: DeviceKind) -> Callable[[], Any]:
        """A rank's share of the model under the same library, in a group of one."""
        settle("fp32")
        tokens = self._tokens(device)
        if self.strategy == "pipeline":
            return stage_alone(built(self.spec, device, "fp32"), rank, self.ranks, tokens, self.micro_batches or 1)
        share = self._rank_spec() if self.strategy == "tensor" else self.spec
        mine = tokens if self.strategy == "tensor" else tokens.chunk(self.ranks)[rank]
        return stepping(built(share, device, "fp32"), self.strategy, "one", self.ranks, mine, device)

    def _rank_spec(self) -> ModelSpec:
        """The model with the heads and widths of one rank."""
        sizes = sizes_of(self.spec)
        d_head = sizes.get("d_head") or sizes["d_model"] // sizes["n_heads"]
        layers = []
        for group in self.spec.layers:
            mixer: Any = group.mixer
            heads = {name: n // self.ranks for name in ("n_heads", "n_kv_heads") if (n := getattr(mixer, name))}
            width = {"d_ff": sizes["d_ff"] // self.ranks}
            channel: Any = group.channel
            parts = {"mixer": mixer.model_copy(update={**heads, "d_head": d_head})}
            layers.append(group.model_copy(update={**parts, "channel": channel.model_copy(update=width)}))
        return self.spec.model_copy(update={"layers": tuple(layers)})

    def _tokens(self, device: DeviceKind) -> Tensor:
        """The tokens of a step, the same on every rank."""
        import torch

        generator = torch.Generator().manual_seed(0)
        return torch.randint(int(self.spec.vocab_size or 2), (self.sequences, self.seq), generator=generator).to(device)
