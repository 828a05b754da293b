"""Attention kernels: of a whole prompt, of one that continues a cache, back through them, and of one new token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from calc.attention import Blocks, flash, standard
from calc.attention.latent import latent
from calc.attention.shape import AttentionShape
from calc.spec.fields import DeviceKind, Dim
from calc.time.attention_calls.backends import fused_kernel
from harness.cases.attention_error import SCORES, error
from harness.cases.case import Case, Counts, Ready
from harness.cases.forecasts import of_attention
from harness.cases.tensors import FAR, TOLERANCE, Turns, no_gradient, sets_of, settle
from harness.kernels import KERNELS
from harness.record import Environment, Forecast

if TYPE_CHECKING:
    from torch import Tensor

    from calc.time.device.profile import Profile

OPEN = ("reference", "linear_reference", "sdpa_math", "mla_naive", "mla_absorbed")
"""Backends that keep every score in memory."""
Dtype = Literal["fp32", "bf16", "fp16"]


class _Attention(Case):
    """What both kinds share: a backend of the registry, held against the float64 one that writes attention out."""

    backend: str
    dtype: Dtype
    cache: str  # pyright: ignore[reportIncompatibleMethodOverride]

    def shape(self) -> AttentionShape:
        raise NotImplementedError

    def _known(self, *functions: str) -> None:
        """Errors: Refused for a backend that there is not, or one of another function."""
        known = [name for name, backend in KERNELS.items() if backend.function in functions]
        self.require("backend", self.backend in known, f"one of {', '.join(known)}")
        self.shape()

    def counts(self) -> Counts:
        """FLOPs of pairs that masks keep, and each operand read or written once; latent attention as it runs."""
        shape, function = self.shape(), KERNELS[self.backend].function
        if function == "latent":
            cost = latent(shape, self.backend == "mla_absorbed")
            return {"flops": float(cost.flops), "bytes": float(cost.traffic)}
        kernel = fused_kernel(shape, shape.direction == "backward")
        return {"bytes": kernel.bytes} | ({"flops": kernel.flops} if function == "softmax" else {})

    def memory(self) -> float:
        shape = self.shape()
        pairs = shape.seq * shape.keys
        check = 8.0 * 8 * min(shape.group * pairs, SCORES)
        masks = 20.0 * pairs if self.backend in OPEN or shape.offset or shape.window else 0.0
        squares = (7 if shape.direction == "backward" else 4) * (self.backend in OPEN)
        width = 4 if self.backend in ("sdpa_math", "linear_reference") else shape.item
        written = squares * width * shape.batch * shape.heads * pairs
        if self.backend == "mla_naive":
            written += 3.0 * float(latent(shape, False).peak)
        return 4 * self.counts()["bytes"] + FAR + check + masks + written

    def peak(self, device: str) -> float | None:
        """Bytes that tensors take at once in one execution forward, where that is counted: every set of inputs that the
        case has made, the output, and the scores that standard attention holds, or flash's two numbers a row."""
        shape = self.shape()
        if shape.direction == "backward" or self.backend not in ("reference", "sdpa_flash", "sdpa_cudnn", "flash_attn"):
            return None
        rows, keys = shape.batch * shape.heads * shape.seq, shape.batch * shape.kv_heads * shape.keys
        inputs = shape.item * (rows * shape.d_head + keys * (shape.d_head + shape.d_value))
        others = shape.item * rows * shape.d_value
        if self.backend == "reference":
            square = shape.item * rows * shape.keys
            # The scores before the mask are still there.
            others += standard(shape).peak + square * shape.hides
        else:
            others += flash(shape, Blocks(128, 128)).peak
        return sets_of(self.counts()["bytes"], device, self.cache == "cold") * inputs + others

    def forecast(self, profile: Profile) -> Forecast | None:
        shape = self.shape()
        graph = profile.kind == "cuda" and shape.direction == "forward"
        peak = self.peak(profile.kind)
        return of_attention(profile, self.backend, shape, "graph" if graph else "eager", peak)

    def unsupported(self, environment: Environment) -> str | None:
        backend, device = KERNELS[self.backend], environment.device
        # Whether torch and a GPU are there is seen by the process that measures; the parent stays without torch.
        if device not in backend.devices:
            return f"{self.backend}: runs on {' and '.join(sorted(backend.devices))} only"
        reason = backend.supports(self.shape(), device)
        return reason and f"{self.backend}: {reason}"

    def ready(self, device: DeviceKind) -> Ready:
        import torch
        from torch._functorch import config

        settle(self.dtype)
        backend, shape = KERNELS[self.backend], self.shape()
        reason = backend.available(device) or backend.supports(shape, device)
        if reason is not None:
            raise NotImplementedError(f"{self.backend}: {reason}")

        def inputs(seed: int) -> tuple[Any, ...]:
            qkv = backend.inputs(shape, device, seed)
            if shape.direction == "forward":
                return *qkv, *backend.laid(*qkv[1:], shape)
            # A compiled backward pass may otherwise write into what forward kept, and then runs only once.
            with config.patch(donated_buffer=False):
                out = backend.forward(*qkv, shape)
            generator = torch.Generator(device).manual_seed(seed + 1)
            gradient = torch.randn(out.shape, generator=generator, device=device).to(out.dtype)
            return *qkv, out, gradient

        turns = Turns(inputs, self.counts()["bytes"], device, self.cache == "cold")

        def forward() -> Tensor:
            q, _, _, k, v = turns()
            return backend.forward(q, k, v, shape)

        def backward() -> Sequence[Tensor]:
            *qkv, out, gradient = turns()
            return torch.autograd.grad(out, qkv, gradient, retain_graph=True)

        ahead = shape.direction == "forward"
        run = no_gradient(forward) if ahead else backward
        return Ready(
            run=run,
            check=lambda: error(shape, self.backend, run(), turns.now),
            tolerance=TOLERANCE[self.dtype],
            rotate=turns.rotate,
            graphable=ahead and device == "cuda",
        )


@dataclass(frozen=True)
class AttentionCase(_Attention):
    """Attention of `seq` new tokens to `keys`, themselves among them (None: to one another). direction: `backward` is
    the gradients of q, k and v alone."""

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
    keys: Dim | None = None
    d_value: Dim | None = None

    def __post_init__(self) -> None:
        self._known("softmax", "linear")

    def shape(self) -> AttentionShape:
        return AttentionShape(
            batch=self.batch,
            heads=self.heads,
            kv_heads=self.kv_heads,
            seq=self.seq,
            keys=self.keys,
            d_head=self.d_head,
            d_value=self.d_value,
            causal=self.causal,
            window=self.window,
            dtype=self.dtype,
            direction=self.direction,
        )


@dataclass(frozen=True)
class DecodeAttentionCase(_Attention):
    """Attention of one new token of each sequence to `context` tokens, itself among them.

    kv_rank, d_rope: of latent attention, whose heads have d_head for content and d_rope more for positions.
    """

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
    kv_rank: Dim | None = None
    d_rope: Dim | None = None

    def __post_init__(self) -> None:
        self.require("d_rope", (self.d_rope is None) == (self.kv_rank is None), "kv_rank and d_rope together")
        self._known(*(("softmax", "linear") if self.kv_rank is None else ("latent",)))

    def shape(self) -> AttentionShape:
        return AttentionShape(
            batch=self.batch,
            heads=self.heads,
            kv_heads=self.kv_heads,
            seq=1,
            keys=self.context,
            d_head=self.d_head + (self.d_rope or 0),
            d_value=self.d_head,
            # One query that stands last sees every key: latent attention then needs no mask.
            causal=self.kv_rank is None,
            window=self.window,
            dtype=self.dtype,
            kv_rank=self.kv_rank,
            d_rope=self.d_rope,
        )
