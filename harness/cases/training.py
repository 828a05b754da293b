"""A training step: forward, loss, backward, the optimizer's step, gradients thrown away."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from calc.ask.estimate import estimate
from calc.conventions import flops as counted
from calc.errors import Refused
from calc.spec import ModelSpec
from calc.spec.fields import DeviceKind, Dim
from calc.spec.run import Run
from calc.spec.run.optimizers import usual_optimizer
from harness.cases.case import Counts, Ready
from harness.cases.forecasts import of_model
from harness.cases.models import routed
from harness.cases.running import (
    Execution,
    ModelCase,
    built,
    converted,
    inputs,
    kernel_of,
    other_kernel,
    tolerance_of,
)
from harness.cases.tensors import settle
from harness.record import Forecast

if TYPE_CHECKING:
    from torch import Tensor, nn

    from calc.time.device.profile import Profile
    from reference_models import Model

RATE, DECAY = 1e-4, 0.1
"""The optimizer's learning rate and weight decay."""
Recipe = Literal["fp32", "bf16", "bf16-mixed"]


@dataclass(frozen=True)
class TrainingCase(ModelCase):
    """One step of AdamW (fused) over `batch` sequences.

    dtype: a recipe of `calc.spec.run.precision`: `bf16` has weights and gradients in it, `bf16-mixed` casts under
    torch.autocast. execution: `compiled` compiles forward and loss, and with them backward; the optimizer is fused
    whatever it says. checkpointing: what backward computes again.
    """

    kind = "training"
    model: str
    seq: Dim
    batch: Dim = 1
    dtype: Recipe = "bf16-mixed"
    execution: Execution = "sdpa"
    checkpointing: Literal["none", "selective", "full"] = "none"

    def __post_init__(self) -> None:
        self.fits("seq", self.seq)
        scored = self.spec.head is not None or not self.spec.reads_tokens
        self.require("model", scored, "a model that reads pictures, or has a head over its vocabulary")
        self.require("seq", not self.spec.decodes or self.seq > 1, "at least 2, so that there is a token to predict")

    def counts(self) -> Counts:
        sizes: dict[str, Any] = {"batch": self.batch, "seq": self.seq}
        found = estimate(self.spec, "flops.training", checkpointing=self.checkpointing, **sizes).value
        counts = {"flops": float(found), "tokens": float(self.batch * self.seq)}
        # PaLM's formula refuses what is no plain decoder (MLA, encoders, pictures), and of experts counts all: a share
        # of a peak would be of FLOPs that nobody executes, so neither has one.
        with suppress(Refused):
            if not routed(self.spec):
                palm = counted(self.spec, Run(phase="training", convention="palm", **sizes))
                counts["model_flops"] = float(palm.total)
        return counts

    def memory(self) -> float:
        # The check keeps another copy of the weights with gradients, in fp32, before the optimizer has any moments.
        parameters = float(estimate(self.spec, "params").value)
        return max(self.peak_bytes("cuda"), (10 if self.dtype == "bf16" else 12) * parameters)

    def peak_bytes(self, device: DeviceKind) -> float:
        """The step's own, as `calc.memory` counts it for the kernels of a device."""
        words: dict[str, Any] = {"recipe": self.dtype, "optimizer": usual_optimizer(self.dtype)}
        words |= {
            "execution": self.execution,
            "batch": self.batch,
            "seq": self.seq,
            "checkpointing": self.checkpointing,
            "device": device,
        }
        return float(estimate(self.spec, "memory.peak", **words).value)

    def forecast(self, profile: Profile) -> Forecast | None:
        words: dict[str, Any] = {"batch": self.batch, "seq": self.seq, "dtype": self.dtype}
        words |= {"execution": self.execution, "checkpointing": self.checkpointing}
        return of_model(profile, self.spec, self.peak_bytes(profile.kind), phase="training", **words)

    def ready(self, device: DeviceKind) -> Ready:
        import torch

        settle(self.dtype)
        model = built(self.spec, device, "bf16" if self.dtype == "bf16" else "fp32")
        given = inputs(model, self.batch, self.seq)
        loss = self.compiled(self.loss_of(model, given, device), device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)

        def run() -> Tensor:
            found = loss()
            found.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return found.detach()

        return Ready(
            run=run,
            check=lambda: self._error(model, given, loss, run, device),
            tolerance=tolerance_of(self.spec, self.dtype),
            components=self.taken_apart(model, run, device),
        )

    def loss_of(
        self, model: Model, given: dict[str, Any], device: DeviceKind, plain: bool = False
    ) -> Callable[[], Tensor]:
        """The objective on a batch. plain: the same in another way, with the other attention kernel, and nothing cast;
        what was kept is computed again (which also lets a large model's scores fit), and what was not is kept."""
        import torch

        options: dict[str, Any] = {"kernel": kernel_of(self.execution), "checkpointing": self.checkpointing}
        if plain:
            again = "full" if self.checkpointing == "none" else "none"
            options = {"kernel": other_kernel(self.execution), "checkpointing": again}
        objective = objective_of(model, given, **options)
        mixed = self.dtype == "bf16-mixed" and not plain

        def loss() -> Tensor:
            with torch.autocast(device, torch.bfloat16, enabled=mixed):
                return objective()

        return loss

    def _error(
        self,
        model: Model,
        given: dict[str, Any],
        loss: Callable[[], Tensor],
        run: Callable[[], Tensor],
        device: DeviceKind,
    ) -> float:
        """The largest of the errors of the loss and of the gradient's norm, against a copy in fp32, sequence by
        sequence; infinite for a loss far from that of a random model, or an optimizer that moves nothing."""
        mine = loss()
        mine.backward()
        norm = _gradient_norm(model)
        model.zero_grad(set_to_none=True)
        copy, right = deepcopy(model).float(), 0.0
        # What routers are told, and which classes are drawn, depends on the whole batch.
        rows = self.batch if routed(self.spec) or not self.spec.reads_tokens else 1
        for i in range(0, self.batch, rows):
            row = converted({name: each[i : i + rows] for name, each in given.items()}, copy)
            part = self.loss_of(copy, row, device, plain=True)() * rows / self.batch
            part.backward()
            right += float(part.detach())
        errors = [abs(float(mine.detach()) - right) / right, abs(norm - _gradient_norm(copy)) / _gradient_norm(copy)]
        del copy
        expected = math.log(outcomes(self.spec))
        usual = 0.5 * expected < right < 2.5 * expected
        return max(errors) if usual and _updates(model, run) else math.inf


def objective_of(model: Model, given: dict[str, Any], **options: Any) -> Callable[[], Tensor]:
    """The loss of a model by its kind: the next token; where all tokens are seen, or another sequence is, tokens drawn
    at random; for pictures a class. Routers' losses take part, as in Switch (weight 0.01)."""
    import torch

    from reference_models.objectives import classification, next_token
    from reference_models.objectives.common import cross_entropy, widens

    spec, front = model.whole, given["inputs"]
    if spec.decodes and spec.encoder is None:
        balance = 0.01 if routed(spec) else 0.0
        return lambda: next_token(model, front, balance=balance, **options)
    generator = torch.Generator(front.device).manual_seed(2)
    if not spec.reads_tokens:
        head = spec.heads[-1]
        classes = torch.randint(head.d_out or 2, (len(front),), generator=generator, device=front.device)
        return lambda: classification(model, front, classes, head=head.name, **options)
    targets = front.flip(1)

    def loss() -> Tensor:
        logits = model(**given, **options).logits
        assert logits is not None
        return cross_entropy(logits, targets, widened=widens(model, None))

    return loss


def outcomes(spec: ModelSpec) -> int:
    """Among how many the loss chooses."""
    return (spec.vocab_size if spec.head is not None else spec.heads[-1].d_out) or 2


def _gradient_norm(model: nn.Module) -> float:
    import torch

    found = [each.grad.float() for each in model.parameters() if each.grad is not None]
    return float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in found])))


def _updates(model: nn.Module, run: Callable[[], Tensor]) -> bool:
    """Whether a step moves the last layer's largest matrix by the learning rate, as Adam's first step does.

    bf16 cannot hold so small a step of a weight that is large; those weights are left out.
    """
    layer = model.get_submodule("layers")[-1]  # pyright: ignore[reportIndexIssue]
    watched = max(layer.parameters(), key=lambda each: each.numel())
    before = watched.detach().clone()
    able = (before + RATE != before) & (before - RATE != before)
    if not math.isfinite(float(run())) or not bool(able.any()):
        return False
    typical = float((watched.detach() - before)[able].abs().float().median())
    return 0.5 * RATE < typical < 2 * RATE
