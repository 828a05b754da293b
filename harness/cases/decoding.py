"""Decoding one token of each sequence with a static cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from calc.ask.estimate import estimate
from calc.blocks.build import build
from calc.spec.fields import DeviceKind, Dim
from calc.spec.run import Run
from calc.trace.part import leaves
from harness.cases.case import Counts, Ready
from harness.cases.forecasts import of_model
from harness.cases.models import routed
from harness.cases.running import ModelCase, built, inputs, kernel_of, serving_bytes, tolerance_of
from harness.cases.tensors import element_bytes, no_gradient, relative, settle
from harness.cases.whole_passes import Dtype, last_logits
from harness.record import Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.time.device.profile import Profile


@dataclass(frozen=True)
class DecodeCase(ModelCase):
    """One more token of each sequence, with `context` tokens in a static cache.

    execution: `graph` is compiled, and captured into a CUDA graph.
    """

    kind = "decode"
    model: str
    context: Dim
    batch: Dim = 1
    dtype: Dtype = "bf16"
    execution: Literal["eager", "sdpa", "compiled", "graph"] = "sdpa"

    def __post_init__(self) -> None:
        self.goes_on()
        self.fits("context", self.context + 1)
        captured = self.execution != "graph" or not routed(self.spec)
        self.require("execution", captured, "another than graph for a mixture of experts, which counts on the host")

    @property
    def clock(self) -> Literal["cuda-graph"] | None:
        return "cuda-graph" if self.execution == "graph" else None

    def counts(self) -> Counts:
        query = Run(batch=self.batch, context=self.context, phase="decode", latent_reading="expanded")
        tree = build(self.spec, query.load(seq=1, context=self.context, decode=True))
        # Of a table that is no head as well, and of experts, only the rows and matrices that are visited are read.
        read = sum(leaf.op.weights_read * leaf.calls for leaf in leaves(tree)) * element_bytes(self.dtype)
        load: dict[str, Any] = {"batch": self.batch, "seq": self.context, "dtype": self.dtype}
        cached = float(estimate(self.spec, "kv_cache", **load).value)
        flops = float(estimate(self.spec, "flops.decode", query).value)
        return {"flops": flops, "bytes": float(read) + cached, "tokens": float(self.batch)}

    def memory(self) -> float:
        return serving_bytes(self.spec, self.dtype, self.batch, self.context + 1, self.execution)

    def forecast(self, profile: Profile) -> Forecast | None:
        words: dict[str, Any] = {"batch": self.batch, "context": self.context, "dtype": self.dtype}
        words |= {"latent_reading": "expanded"}  # as the reference model decodes
        return of_model(profile, self.spec, phase="decode", execution=self.execution, **words)

    def ready(self, device: DeviceKind) -> Ready:
        import torch

        settle(self.dtype)
        if self.execution == "graph" and device == "cpu":
            raise NotImplementedError("CUDA graphs need a GPU")
        model = built(self.spec, device, self.dtype)
        tokens = inputs(model, self.batch, self.context + 1)["inputs"]
        cache = model.new_cache(self.context + 1)
        no_gradient(lambda: model(tokens[:, :-1], cache=cache, kernel="sdpa", last_only=True))()
        token, at = tokens[:, -1:].clone(), torch.tensor(self.context, device=device)
        kernel = kernel_of(self.execution)

        def plain() -> Tensor:
            # The token's place stays the same, so that every execution does the same work.
            return model(token, cache=cache, at=at, kernel=kernel).logits[:, -1]

        run = no_gradient(self.compiled(plain, device))
        return Ready(
            run=run,
            check=lambda: relative(run()[:1], last_logits(model, tokens[:1], self.execution)),
            tolerance=tolerance_of(self.spec, self.dtype),
            graphable=not routed(self.spec),
            components=self.taken_apart(model, no_gradient(plain), device),
        )
