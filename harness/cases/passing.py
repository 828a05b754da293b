"""Passes of whole models without gradients: forward, prefill, and decoding one token with a static cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from calc.build import build
from calc.estimation import estimate
from calc.op import leaves
from calc.query import Query
from calc.spec import ModelSpec
from calc.spec.fields import Dim
from harness.cases.case import Case, Counts, Device, Ready
from harness.cases.forecasts import of_model
from harness.cases.models import spec_of
from harness.cases.parts import component_seconds
from harness.cases.running import (
    Execution,
    built,
    inputs,
    kernel_of,
    moved,
    other_way,
    result_of,
    serving_bytes,
    tolerance_of,
)
from harness.cases.tensors import element_bytes, no_gradient, relative, settle
from harness.record import Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.predict.profile import Profile
    from reference_models import Model

Dtype = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class ForwardCase(Case):
    """Logits of every token of `batch` sequences; of a model of pictures, what its last dense layer gives (seq 1)."""

    kind = "forward"
    step = True
    model: str
    seq: Dim
    batch: Dim = 1
    dtype: Dtype = "bf16"
    execution: Execution = "sdpa"

    def __post_init__(self) -> None:
        _fits(self, self.spec, self.seq)

    @property
    def spec(self) -> ModelSpec:
        return spec_of(self.model)

    @property
    def group(self) -> str:
        return f"forward.{self.dtype}"

    def counts(self) -> Counts:
        sizes: dict[str, Any] = {"batch": self.batch, "seq": self.seq}
        return {
            "flops": float(estimate(self.spec, "flops.forward", **sizes).value),
            "bytes": float(estimate(self.spec, "weights", dtype=self.dtype).value),
            "tokens": float(self.batch * self.seq),
        }

    def memory(self) -> float:
        return serving_bytes(self.spec, self.dtype, self.batch, self.seq, self.execution)

    def forecast(self, profile: Profile) -> Forecast | None:
        asked: dict[str, Any] = {"batch": self.batch, "seq": self.seq, "dtype": self.dtype}
        return of_model(profile, self.spec, phase="forward", execution=self.execution, **asked)

    def ready(self, device: Device) -> Ready:
        settle(self.dtype)
        model = built(self.spec, device, self.dtype)
        given = inputs(model, self.batch, self.seq)
        kernel = kernel_of(self.execution)

        def plain() -> Tensor:
            return result_of(model(**given, kernel=kernel))

        run = no_gradient(_compiled(plain, self))

        def error() -> float:
            wide, other = other_way(model, self.execution)
            first = {name: each[:1] for name, each in moved(given, wide).items()}
            right = no_gradient(lambda: result_of(wide(**first, kernel=other)))()
            return relative(run()[:1], right)

        return Ready(
            run=run,
            check=error,
            tolerance=tolerance_of(self.spec, self.dtype),
            graphable=_capturable(self.spec),
            components=_taken_apart(self.execution, model, no_gradient(plain), device),
        )


@dataclass(frozen=True)
class PrefillCase(Case):
    """`batch` prompts of `seq` tokens into an empty static cache, and the logits of the last token of each."""

    kind = "prefill"
    step = True
    model: str
    seq: Dim
    batch: Dim = 1
    dtype: Dtype = "bf16"
    execution: Execution = "sdpa"

    def __post_init__(self) -> None:
        _decodes(self, self.spec, self.seq)

    @property
    def spec(self) -> ModelSpec:
        return spec_of(self.model)

    @property
    def group(self) -> str:
        return f"prefill.{self.dtype}"

    def counts(self) -> Counts:
        query = Query(batch=self.batch, seq=self.seq)
        everything = [(leaf.path, leaf.op.flops * leaf.calls) for leaf in leaves(build(self.spec, query.load()))]
        # The head reads one token of each sequence.
        flops = sum(each / self.seq if path.startswith("lm_head") else each for path, each in everything)
        weights = float(estimate(self.spec, "weights", dtype=self.dtype).value)
        return {"flops": float(flops), "bytes": weights, "tokens": float(self.batch * self.seq)}

    def memory(self) -> float:
        return serving_bytes(self.spec, self.dtype, self.batch, self.seq, self.execution)

    def forecast(self, profile: Profile) -> Forecast | None:
        asked: dict[str, Any] = {"batch": self.batch, "seq": self.seq, "dtype": self.dtype}
        return of_model(profile, self.spec, phase="prefill", execution=self.execution, **asked)

    def ready(self, device: Device) -> Ready:
        settle(self.dtype)
        model = built(self.spec, device, self.dtype)
        prompt = inputs(model, self.batch, self.seq)["inputs"]
        kernel = kernel_of(self.execution)

        def plain() -> Tensor:
            return model(prompt, cache=model.new_cache(self.seq), kernel=kernel, last_only=True).logits[:, -1]

        run = no_gradient(_compiled(plain, self))
        return Ready(
            run=run,
            check=lambda: relative(run()[:1], _last_logits(model, prompt[:1], self.execution)),
            tolerance=tolerance_of(self.spec, self.dtype),
            components=_taken_apart(self.execution, model, no_gradient(plain), device),
        )


@dataclass(frozen=True)
class DecodeCase(Case):
    """One more token of each sequence, with `context` tokens in a static cache.

    execution: `graph` is compiled, and captured into a CUDA graph.
    """

    kind = "decode"
    step = True
    model: str
    context: Dim
    batch: Dim = 1
    dtype: Dtype = "bf16"
    execution: Literal["eager", "sdpa", "compiled", "graph"] = "sdpa"

    def __post_init__(self) -> None:
        _decodes(self, self.spec, self.context + 1)
        captured = self.execution != "graph" or _capturable(self.spec)
        self.require("execution", captured, "another than graph for a mixture of experts, which counts on the host")

    @property
    def spec(self) -> ModelSpec:
        return spec_of(self.model)

    @property
    def group(self) -> str:
        return f"decode.{self.dtype}"

    @property
    def clock(self) -> Literal["cuda-graph"] | None:
        return "cuda-graph" if self.execution == "graph" else None

    def counts(self) -> Counts:
        query = Query(batch=self.batch, context=self.context, phase="decode")
        tree = build(self.spec, query.load(seq=1, context=self.context, decode=True))
        # Of a table that is no head as well, and of experts, only the rows and matrices that are visited are read.
        read = sum(leaf.op.weights_read * leaf.calls for leaf in leaves(tree)) * element_bytes(self.dtype)
        load: dict[str, Any] = {"batch": self.batch, "seq": self.context, "dtype": self.dtype}
        cached = float(estimate(self.spec, "kv_cache", **load).value)
        flops = float(estimate(self.spec, "flops.decode", batch=self.batch, context=self.context).value)
        return {"flops": flops, "bytes": float(read) + cached, "tokens": float(self.batch)}

    def memory(self) -> float:
        return serving_bytes(self.spec, self.dtype, self.batch, self.context + 1, self.execution)

    def forecast(self, profile: Profile) -> Forecast | None:
        asked: dict[str, Any] = {"batch": self.batch, "context": self.context, "dtype": self.dtype}
        return of_model(profile, self.spec, phase="decode", execution=self.execution, **asked)

    def ready(self, device: Device) -> Ready:
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

        run = no_gradient(_compiled(plain, self))
        return Ready(
            run=run,
            check=lambda: relative(run()[:1], _last_logits(model, tokens[:1], self.execution)),
            tolerance=tolerance_of(self.spec, self.dtype),
            graphable=_capturable(self.spec),
            components=_taken_apart(self.execution, model, no_gradient(plain), device),
        )


def _last_logits(model: Model, tokens: Tensor, execution: str) -> Tensor:
    """The last token's logits by one pass over all tokens, without a cache."""
    wide, other = other_way(model, execution)
    return no_gradient(lambda: wide(tokens, kernel=other, last_only=True).logits[:, -1])()


def _compiled(plain: Callable[[], Tensor], case: Case) -> Callable[[], Tensor]:
    """`plain`, compiled where the case's execution says so. Experts' shapes depend on the tokens: with breaks."""
    import torch

    if case.params["execution"] not in ("compiled", "graph"):
        return plain
    return torch.compile(plain, dynamic=False, fullgraph=_capturable(spec_of(case.params["model"])))


def _capturable(spec: ModelSpec) -> bool:
    """Whether a pass asks nothing of the host: how many tokens visit an expert is such a question."""
    return not any(getattr(group.channel, "kind", "") == "moe" for stack in spec.stacks for group in stack.layers)


def _taken_apart(
    execution: str, model: Model, run: Callable[[], Any], device: Device
) -> Callable[[], dict[str, float]] | None:
    return (lambda: component_seconds(model, run, device)) if execution in ("eager", "sdpa") else None


def _fits(case: Case, spec: ModelSpec, length: int) -> None:
    """Errors: Refused for sequences that the model does not take."""
    if not spec.reads_tokens:
        case.require("seq", length == 1, "1 for a model that reads pictures")
        return
    most = getattr(spec.embedding, "n_positions", None)
    named = "seq" if "seq" in case.params else "context"
    case.require(named, most is None or length <= most, f"at most the {most} positions of the model")


def _decodes(case: Case, spec: ModelSpec, length: int) -> None:
    plain = spec.decodes and spec.encoder is None and spec.head is not None
    case.require("model", plain, "a model that goes on token by token, without an encoder")
    _fits(case, spec, length)
