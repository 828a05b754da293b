"""What cases of whole models share: building one, inputs of the right kind, and the same computed in another way.

torch is imported inside the functions.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from calc.ask.estimate import estimate
from calc.errors import Refused
from calc.spec import ModelSpec
from calc.spec.fields import DeviceKind
from harness.cases.case import Case
from harness.cases.models import routed, spec_of
from harness.cases.parts import component_seconds
from harness.cases.tensors import building

if TYPE_CHECKING:
    from torch import Tensor, nn

    from reference_models import Model

Execution = Literal["eager", "sdpa", "compiled"]
T = TypeVar("T")
EXACT, WIDE = 2 * 10**8, 4 * 10**9
"""Parameters up to which a copy in fp64, and one in fp32, is made to hold results against."""
TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2, "fp16": 2e-2, "bf16-mixed": 5e-2}
"""Relative errors of logits and losses of whole models: random ones, whose layers add up what each of them rounds."""
ROUTED = 0.25
"""The same where experts are chosen by rounded scores: near a tie another one is as good."""


class ModelCase(Case):
    """A case that runs a whole model, named as `harness.cases.models.spec_of` knows it."""

    step = True
    model: str
    dtype: str
    execution: str

    @property
    def spec(self) -> ModelSpec:
        return spec_of(self.model)

    def fits(self, field: str, length: int) -> None:
        """Errors: Refused, naming `field`, for sequences of a length that the model does not take."""
        spec = self.spec
        if not spec.reads_tokens:
            self.require(field, length == 1, "1 for a model that reads pictures")
            return
        most = getattr(spec.embedding, "n_positions", None)
        self.require(field, most is None or length <= most, f"at most the {most} positions of the model")

    def goes_on(self) -> None:
        """Errors: Refused for a model that does not go on token by token by itself."""
        spec = self.spec
        plain = spec.decodes and spec.encoder is None and spec.head is not None
        self.require("model", plain, "a model that goes on token by token, without an encoder")

    def compiled(self, run: Callable[[], T], device: DeviceKind) -> Callable[[], T]:
        """`run`, compiled where `execution` says so. Experts' shapes depend on the tokens: there with breaks.

        Errors: NotImplementedError where nothing can be compiled.
        """
        if self.execution not in ("compiled", "graph"):
            return run
        import torch

        cannot_compile(device)
        return torch.compile(run, dynamic=False, fullgraph=not routed(self.spec))

    def taken_apart(
        self, model: Model, run: Callable[[], Any], device: DeviceKind
    ) -> Callable[[], dict[str, float]] | None:
        """What `Ready.components` is; None where components are fused with each other."""
        fused = self.execution in ("compiled", "graph")
        return None if fused else lambda: component_seconds(model, run, device)


def cannot_compile(device: DeviceKind) -> None:
    """Errors: NotImplementedError with the reason where torch.compile cannot make kernels: it writes Triton for GPUs,
    and C++ with Python's headers for CPUs."""
    if device == "cuda":
        if find_spec("triton") is None:
            raise NotImplementedError("torch.compile: there is no Triton")
        return
    compiler = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(compiler) is None:
        raise NotImplementedError(f"torch.compile: there is no C++ compiler ({compiler})")
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        raise NotImplementedError("torch.compile: there are no headers of Python (Python.h)")


def tolerance_of(spec: ModelSpec, dtype: str) -> float:
    """How far results of the model may be from those in a wider format."""
    return ROUTED if routed(spec) and dtype != "fp32" else TOLERANCE[dtype]


def built(spec: ModelSpec, device: DeviceKind, dtype: str) -> Model:
    """The reference model with random weights."""
    from reference_models import build

    with building(dtype):
        return build(spec, device)


def inputs(model: Model, batch: int, seq: int, seed: int = 0) -> dict[str, Any]:
    """Arguments of `model.forward`: random tokens, and normal numbers for pixels and frames."""
    import torch

    from reference_models.inputs import example

    made = example(model, batch, seq)
    dtype = next(model.parameters()).dtype
    for name, empty in made.items():
        generator = torch.Generator(empty.device).manual_seed(seed)
        if empty.is_floating_point():
            made[name] = torch.randn(empty.shape, generator=generator, device=empty.device).to(dtype)
        else:
            vocabulary = model.whole.vocab_size or 2
            made[name] = torch.randint(vocabulary, empty.shape, generator=generator, device=empty.device)
    return made


def kernel_of(execution: str) -> Literal["eager", "sdpa"]:
    """The attention kernel that runs under an execution."""
    return "eager" if execution == "eager" else "sdpa"


def other_kernel(execution: str) -> Literal["eager", "sdpa"]:
    """The attention kernel that does not."""
    return "sdpa" if execution == "eager" else "eager"


def wider(model: Model) -> Model:
    """A wider copy of the model to hold results against; of one that is too large for that, itself."""
    import torch

    parameters = sum(each.numel() for each in model.parameters())
    if parameters > WIDE:
        return model
    return deepcopy(model).to(torch.float64 if parameters <= EXACT else torch.float32)


def converted(arguments: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    """Arguments in the number format of a model's weights."""
    dtype = next(model.parameters()).dtype
    return {name: each.to(dtype) if each.is_floating_point() else each for name, each in arguments.items()}


def result_of(out: Any) -> Tensor:
    """What a model is asked for: logits, or the result of the last dense layer behind it."""
    return out.logits if out.logits is not None else next(reversed(out.heads.values()), out.last)


def serving_bytes(spec: ModelSpec, dtype: str, batch: int, seq: int, execution: str) -> float:
    """Bytes at the peak of a pass without gradients, with its check in a wider copy."""
    weights = float(estimate(spec, "weights", dtype=dtype).value)
    parameters = float(estimate(spec, "params").value)
    again = 8 * parameters if parameters <= EXACT else 4 * parameters if parameters <= WIDE else 0
    served: dict[str, Any] = {"mode": "inference", "execution": execution, "logits": "all", "device": "cpu"}
    served |= {"latent_reading": "expanded"}  # as the reference model decodes
    try:
        peak = float(estimate(spec, "memory.peak", dtype=dtype, batch=batch, seq=seq, **served).value)
    except Refused:
        # Pictures: what is live beside the weights is small.
        peak = 2 * weights
    return peak + again
