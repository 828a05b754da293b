"""Passes of whole models over all of their tokens, without gradients: forward and prefill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from calc.ask.estimate import estimate
from calc.blocks.build import build
from calc.quantities.flops import of_prompt
from calc.spec.fields import DeviceKind, Dim
from calc.spec.run import Phase, Run
from calc.trace.part import leaves
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
    result_of,
    serving_bytes,
    tolerance_of,
    wider,
)
from harness.cases.tensors import no_gradient, relative, settle
from harness.record import Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.time.device.profile import Profile
    from reference_models import Model

Dtype = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class _WholePass(ModelCase):
    """A pass over `batch` sequences of `seq` tokens: its words, its memory and its forecast."""

    phase: ClassVar[Phase]
    model: str
    seq: Dim
    batch: Dim = 1
    dtype: Dtype = "bf16"
    execution: Execution = "sdpa"

    def memory(self) -> float:
        return serving_bytes(self.spec, self.dtype, self.batch, self.seq, self.execution)

    def forecast(self, profile: Profile) -> Forecast | None:
        words: dict[str, Any] = {"batch": self.batch, "seq": self.seq, "dtype": self.dtype}
        return of_model(profile, self.spec, phase=self.phase, execution=self.execution, **words)


@dataclass(frozen=True)
class ForwardCase(_WholePass):
    """Logits of every token of `batch` sequences; of a model of pictures, what its last dense layer gives (seq 1)."""

    kind = "forward"
    phase = "forward"

    def __post_init__(self) -> None:
        self.fits("seq", self.seq)

    def counts(self) -> Counts:
        sizes: dict[str, Any] = {"batch": self.batch, "seq": self.seq}
        return {
            "flops": float(estimate(self.spec, "flops.forward", **sizes).value),
            "bytes": float(estimate(self.spec, "weights", dtype=self.dtype).value),
            "tokens": float(self.batch * self.seq),
        }

    def ready(self, device: DeviceKind) -> Ready:
        settle(self.dtype)
        model = built(self.spec, device, self.dtype)
        given = inputs(model, self.batch, self.seq)
        kernel = kernel_of(self.execution)

        def plain() -> Tensor:
            return result_of(model(**given, kernel=kernel))

        run = no_gradient(self.compiled(plain, device))

        def error() -> float:
            wide = wider(model)
            first = {name: each[:1] for name, each in converted(given, wide).items()}
            right = no_gradient(lambda: result_of(wide(**first, kernel=other_kernel(self.execution))))()
            return relative(run()[:1], right)

        return Ready(
            run=run,
            check=error,
            tolerance=tolerance_of(self.spec, self.dtype),
            graphable=not routed(self.spec),
            components=self.taken_apart(model, no_gradient(plain), device),
        )


@dataclass(frozen=True)
class PrefillCase(_WholePass):
    """`batch` prompts of `seq` tokens into an empty static cache, and the logits of the last token of each."""

    kind = "prefill"
    phase = "prefill"

    def __post_init__(self) -> None:
        self.goes_on()
        self.fits("seq", self.seq)

    def counts(self) -> Counts:
        everything = leaves(build(self.spec, Run(batch=self.batch, seq=self.seq).load()))
        flops = sum(leaf.op.flops * leaf.calls * of_prompt(leaf, self.seq) for leaf in everything)
        weights = float(estimate(self.spec, "weights", dtype=self.dtype).value)
        return {"flops": float(flops), "bytes": weights, "tokens": float(self.batch * self.seq)}

    def ready(self, device: DeviceKind) -> Ready:
        settle(self.dtype)
        model = built(self.spec, device, self.dtype)
        prompt = inputs(model, self.batch, self.seq)["inputs"]
        kernel = kernel_of(self.execution)

        def plain() -> Tensor:
            return model(prompt, cache=model.new_cache(self.seq), kernel=kernel, last_only=True).logits[:, -1]

        run = no_gradient(self.compiled(plain, device))
        return Ready(
            run=run,
            check=lambda: relative(run()[:1], last_logits(model, prompt[:1], self.execution)),
            tolerance=tolerance_of(self.spec, self.dtype),
            components=self.taken_apart(model, no_gradient(plain), device),
        )


def last_logits(model: Model, tokens: Tensor, execution: str) -> Tensor:
    """The last token's logits by one pass over all tokens, without a cache, in another way than `execution`'s."""
    wide, kernel = wider(model), other_kernel(execution)
    return no_gradient(lambda: wide(tokens, kernel=kernel, last_only=True).logits[:, -1])()
