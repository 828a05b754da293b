"""One layer of a denoiser, modulated by what is known of its picture: the twin of `calc.blocks.denoising`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Attention, Denoising, Mlp
from reference_models.blocks.attend import attend, split
from reference_models.blocks.linear import ACTIVATIONS, NormLayer
from reference_models.blocks.mlp import FeedForward
from reference_models.blocks.positions import turn
from reference_models.step import Step
from reference_models.support import supported

FIELDS = ("n_heads", "streams", "d_ff", "bias", "qk_norm", "axes", "dual", "activation", "eps", "conditioning")


class DenoisingLayer(nn.Module):
    """Patches, and a text beside them or before them in one."""

    # Any: nn.Module knows its children only at run time.
    attention: Any
    dual_attention: Any
    conditioning: Any

    def __init__(self, spec: Denoising, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        joined, beside = spec.streams == "joined", spec.streams in ("beside", "text_ends")
        self.modulation = nn.Linear(d_model, (3 if joined else 9 if spec.dual else 6) * d_model)
        if beside:
            self.text_modulation = nn.Linear(d_model, (2 if spec.streams == "text_ends" else 6) * d_model)
        self.attention = Together(spec, d_model, ("text_", "") if beside else ("",), ends=not joined)
        if spec.dual:
            self.dual_attention = Together(spec, d_model, ("",))
        d_ff = spec.d_ff or 4 * d_model
        if joined:
            self.mlp = nn.ModuleDict({"up_proj": nn.Linear(d_model, d_ff)})
            self.out_proj = nn.Linear(d_model + d_ff, d_model)
            return
        how = Mlp(d_ff=d_ff, bias=True, activation=spec.activation)
        self.mlp = FeedForward(how, d_model)
        if spec.streams == "beside":
            self.text_mlp = FeedForward(how, d_model)

    def forward(
        self, x: Tensor, text: Tensor | None, given: Tensor, angles: tuple[Tensor, Tensor] | None, step: Step
    ) -> tuple[Tensor, Tensor | None]:
        """x [batch, patches, d_model], text [batch, n_text, d_model], given [batch, d_model] -> x and the text."""
        if self.spec.streams == "joined":
            return self._joined(x, text, given, angles, step)
        shift, scale, *more = self.modulation(F.silu(given)).chunk(9 if self.spec.dual else 6, -1)
        normed = self._norm(x)
        read, again = modulated(normed, scale, shift), None
        if self.spec.dual:
            *more, shift, scale, last = more
            again = modulated(normed, scale, shift), last
        if text is None or self.spec.streams == "picture":
            (seen,) = self.attention((read,), angles, step)
            return self._finished("", x, seen, more, step), text
        ends = self.spec.streams == "text_ends"
        parts = self.text_modulation(F.silu(given)).chunk(2 if ends else 6, -1)
        # What only attention reads is scaled first, and shifted first where more of it is modulated.
        scale, shift = parts[:2] if ends else parts[1::-1]
        heard, seen = self.attention((modulated(self._norm(text), scale, shift), read), angles, step)
        x = self._finished("", x, seen, more, step, again)
        return x, None if ends else self._finished("text_", text, heard, list(parts[2:]), step)

    def _finished(
        self,
        prefix: str,
        x: Tensor,
        seen: Tensor,
        more: list[Tensor],
        step: Step,
        again: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        gate, shift, scale, last = (part[:, None] for part in more)
        x = x + gate * seen
        if again is not None:
            x = x + again[1][:, None] * self.dual_attention((again[0],), None, step)[0]
        read = self._norm(x) * (1 + scale) + shift
        return x + last * self.get_submodule(f"{prefix}mlp")(read, step)

    def _joined(
        self, x: Tensor, text: Tensor | None, given: Tensor, angles: tuple[Tensor, Tensor] | None, step: Step
    ) -> tuple[Tensor, Tensor | None]:
        """Attention beside the feed-forward block, of text and patches in one."""
        n = 0 if text is None else text.shape[1]
        both = x if text is None else torch.cat([text, x], 1)
        shift, scale, gate = self.modulation(F.silu(given)).chunk(3, -1)
        read = modulated(self._norm(both), scale, shift)
        up = ACTIVATIONS[self.spec.activation](self.mlp.get_submodule("up_proj")(read))
        (seen,) = self.attention((read,), angles, step)
        y = both + gate[:, None] * self.out_proj(torch.cat([seen, up], -1))
        return y[:, n:], y[:, :n] if text is not None else None

    def _norm(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], eps=self.spec.eps)


class Together(nn.Module):
    """Attention of one or two streams over all of them. streams: prefixes of their weights. ends: whether a matrix
    stands behind it."""

    def __init__(self, spec: Denoising, d_model: int, streams: tuple[str, ...], *, ends: bool = True) -> None:
        super().__init__()
        self.spec, self.streams, self.ends = spec, streams, ends
        self.core = Attention(n_heads=spec.n_heads, causal=False, position="none", softmax="model")
        for prefix in streams:
            for name in "qkv":
                self.add_module(f"{prefix}{name}_proj", nn.Linear(d_model, d_model, bias=spec.bias or len(streams) > 1))
            for name in "qk" if spec.qk_norm is not None else "":
                assert spec.qk_norm is not None
                self.add_module(f"{prefix}{name}_norm", NormLayer(spec.qk_norm, (d_model // spec.n_heads,)))
            if ends and not (spec.streams == "text_ends" and prefix):
                self.add_module(f"{prefix}o_proj", nn.Linear(d_model, d_model))

    def forward(self, reads: tuple[Tensor, ...], angles: tuple[Tensor, Tensor] | None, step: Step) -> list[Tensor]:
        """What each stream gets; of a text that ends here, what no matrix has read."""
        made = [self._projected(prefix, x) for prefix, x in zip(self.streams, reads, strict=True)]
        q, k, v = made[0] if len(made) == 1 else (self._beside(parts, angles) for parts in zip(*made, strict=True))
        if angles is not None:
            q, k = (turn(x, *angles, interleaved=True).to(x.dtype) for x in (q, k))
        y = attend(self.core, q, k, v, step, plain=True).transpose(1, 2).flatten(2).to(q.dtype)
        parts = y.split([x.shape[1] for x in reads], 1) if len(reads) > 1 else (y,)
        named = [f"{prefix}o_proj" for prefix in self.streams]
        has = [name in self._modules for name in named]
        return [self.get_submodule(n)(part) if h else part for n, h, part in zip(named, has, parts, strict=True)]

    def _projected(self, prefix: str, x: Tensor) -> list[Tensor]:
        """[batch, n_heads, n, d_head] each."""
        made = [split(self.get_submodule(f"{prefix}{name}_proj")(x), self.spec.n_heads) for name in "qkv"]
        if self.spec.qk_norm is not None:
            made[:2] = (self.get_submodule(f"{prefix}{name}_norm")(x) for name, x in zip("qk", made, strict=False))
        return made

    def _beside(self, parts: tuple[Tensor, ...], angles: tuple[Tensor, Tensor] | None) -> Tensor:
        """Streams one behind the other: those that turn vector by vector, others head by head."""
        if angles is None:
            return torch.cat(parts, 2)
        return torch.cat([x.transpose(1, 2) for x in parts], 1).transpose(1, 2)


def modulated(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x [batch, n, d_model] times 1 + scale, plus shift, of one vector each for every picture."""
    return x * (1 + scale[:, None]) + shift[:, None]
