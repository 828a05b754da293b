"""Attention kernels: of a whole prompt, forward and backward, and of one new token over a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from calc.attention.shape import AttentionShape
from calc.errors import Refused
from calc.predict.single import attention, decode_attention
from calc.spec.fields import Dim
from harness.cases.case import Case, Counts, Device, Ready
from harness.cases.forecasts import of_kernel
from harness.cases.tensors import TOLERANCE, Turns, no_gradient, relative, settle
from harness.kernels import KERNELS, REFERENCES
from harness.record import Environment, Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.predict.kernel import Kernel
    from calc.predict.profile import Profile

OPEN = ("reference", "tiled", "linear_reference", "linear", "sdpa_math")
"""Backends that are no single fused kernel, for which no profile speaks."""
Dtype = Literal["fp32", "bf16", "fp16"]


class _Attention(Case):
    """What both kinds share: a backend of the registry, held against the float64 one that writes attention out."""

    backend: str
    dtype: Dtype
    cache: str  # pyright: ignore[reportIncompatibleMethodOverride]

    def shape(self) -> AttentionShape:
        raise NotImplementedError

    def _kernel(self) -> Kernel:
        raise NotImplementedError

    def _known(self) -> None:
        """Errors: Refused for a backend that there is not, or one of another function of its own."""
        known = [name for name, backend in KERNELS.items() if backend.function in ("softmax", "linear")]
        self.require("backend", self.backend in known, f"one of {', '.join(known)}")
        self.shape()

    @property
    def group(self) -> str:
        return f"{self.kind}.{self.dtype}"

    def counts(self) -> Counts:
        if KERNELS[self.backend].function != "softmax":
            return {"bytes": self._kernel().bytes}
        return {"flops": self._kernel().flops, "bytes": self._kernel().bytes}

    def memory(self) -> float:
        shape = self.shape()
        scores = 8.0 * shape.group * shape.seq * shape.keys
        written = 4.0 * shape.batch * shape.heads * shape.seq * shape.keys if self.backend in OPEN else 0
        return 4 * self._kernel().bytes + 3 * scores + 3 * written

    def forecast(self, profile: Profile) -> Forecast | None:
        return None if self.backend in OPEN else of_kernel(profile, self._kernel())

    def unsupported(self, environment: Environment) -> str | None:
        backend, device = KERNELS[self.backend], environment.device
        # Whether torch and a GPU are there is seen by the process that measures; the parent stays without torch.
        if device not in backend.devices:
            return f"{self.backend}: runs on {' and '.join(sorted(backend.devices))} only"
        reason = backend.supports(self.shape(), device)
        return reason and f"{self.backend}: {reason}"

    def ready(self, device: Device) -> Ready:
        import torch

        settle(self.dtype)
        backend, shape = KERNELS[self.backend], self.shape()
        reason = backend.available(device) or backend.supports(shape, device)
        if reason is not None:
            raise NotImplementedError(f"{self.backend}: {reason}")

        def inputs(seed: int) -> tuple[Any, ...]:
            qkv = backend.inputs(shape, device, seed)
            if shape.direction == "forward":
                return qkv
            out = backend.forward(*qkv, shape)
            generator = torch.Generator(device).manual_seed(seed + 1)
            gradient = torch.randn(out.shape, generator=generator, device=device).to(out.dtype)
            return *qkv, out, gradient

        turns = Turns(inputs, self._kernel().bytes, device, self.cache == "cold")

        def forward() -> Tensor:
            q, k, v = turns()
            return backend.forward(q, k, v, shape)

        def backward() -> Sequence[Tensor]:
            *qkv, out, gradient = turns()
            return torch.autograd.grad(out, qkv, gradient, retain_graph=True)

        ahead = shape.direction == "forward"
        run = no_gradient(forward) if ahead else backward
        return Ready(
            run=run,
            check=lambda: _error(shape, REFERENCES[backend.function], run(), turns.now),
            tolerance=TOLERANCE[self.dtype],
            rotate=turns.rotate,
            graphable=ahead and device == "cuda",
        )


@dataclass(frozen=True)
class AttentionCase(_Attention):
    """Attention of `seq` tokens to one another. direction: `backward` is the gradients of q, k and v alone."""

    kind = "attention"
    backend: str
    seq: Dim
    heads: Dim
    d_head: Dim
    batch: Dim = 1
    kv_heads: Dim | None = None
    causal: bool = True
    window: Dim | None = None
    dtype: Dtype = "bf16"
    direction: Literal["forward", "backward"] = "forward"
    cache: Literal["hot", "cold"] = "hot"

    def __post_init__(self) -> None:
        self._known()

    def shape(self) -> AttentionShape:
        return AttentionShape(
            batch=self.batch,
            heads=self.heads,
            kv_heads=self.kv_heads,
            seq=self.seq,
            d_head=self.d_head,
            causal=self.causal,
            window=self.window,
            dtype=self.dtype,
            direction=self.direction,
        )

    def _kernel(self) -> Kernel:
        kv_heads, back = self.kv_heads or self.heads, self.direction == "backward"
        sizes = (self.batch, self.heads, kv_heads, self.seq, self.seq, self.d_head)
        return attention(*sizes, self.dtype, causal=self.causal, window=self.window, backward=back)


@dataclass(frozen=True)
class DecodeAttentionCase(_Attention):
    """Attention of one new token of each sequence to `context` tokens, itself among them."""

    kind = "decode_attention"
    backend: str
    context: Dim
    heads: Dim
    d_head: Dim
    batch: Dim = 1
    kv_heads: Dim | None = None
    window: Dim | None = None
    dtype: Dtype = "bf16"
    cache: Literal["hot", "cold"] = "hot"

    def __post_init__(self) -> None:
        self._known()

    def shape(self) -> AttentionShape:
        return AttentionShape(
            batch=self.batch,
            heads=self.heads,
            kv_heads=self.kv_heads,
            seq=1,
            keys=self.context,
            d_head=self.d_head,
            causal=True,
            window=self.window,
            dtype=self.dtype,
        )

    def _kernel(self) -> Kernel:
        sizes = (self.batch, self.heads, self.kv_heads or self.heads, self.context, self.d_head)
        return decode_attention(*sizes, self.dtype, window=self.window)


def _error(shape: AttentionShape, reference: str, found: Any, used: tuple[Any, ...]) -> float:
    """Of the first sequence and the first group of heads that share keys, against the reference in float64."""
    group = shape.group
    if not isinstance(group, int):
        raise Refused("shape", "whole sizes", str(shape))
    one = replace(shape, batch=1, heads=group, kv_heads=1, dtype="fp64")
    ahead = shape.direction == "forward"
    q, k, v = (
        each.detach()[:1, :n].double().requires_grad_(not ahead)
        for each, n in zip(used[:3], (group, 1, 1), strict=True)
    )
    right = KERNELS[reference].forward(q, k, v, one)
    if ahead:
        return relative(found[:1, :group], right)
    import torch

    gradients = torch.autograd.grad(right, (q, k, v), used[4][:1, :group].double())
    return max(relative(mine[:1, : theirs.shape[1]], theirs) for mine, theirs in zip(found, gradients, strict=True))
