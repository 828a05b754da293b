"""Attention of chunks of sound over what stands beside them: the twin of `calc.blocks.chunk_attention`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import ChunkAttention
from reference_models.blocks.positions import sinusoidal
from reference_models.step import Step, recomputed
from reference_models.support import supported


class OfChunks(nn.Module):
    """Chunks of queries over their own keys and those beside them."""

    name = "attention"
    pos_proj: nn.Linear
    scale: Tensor
    cap: Tensor

    def __init__(self, spec: ChunkAttention, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "chunk", "before", "after", "softcap")
        self.spec = spec
        width = spec.n_heads * spec.d_head
        for name in ("q_proj", "k_proj", "v_proj", "pos_proj"):
            self.add_module(name, nn.Linear(d_model, width, bias=False))
        self.o_proj = nn.Linear(width, d_model, bias=False)
        self.per_dim_scale = nn.Parameter(torch.zeros(spec.d_head))
        # A head of zeros in per_dim_scale has the usual scale.
        usual = spec.d_head**-0.5 / F.softplus(torch.zeros(()))
        self.register_buffer("scale", usual.to(self.per_dim_scale.device), persistent=False)
        self.register_buffer("cap", torch.tensor(spec.softcap), persistent=False)

    def new_cache(self, length: int | None) -> None:
        """Nothing goes on with what is heard, so nothing is kept."""

    def forward(self, x: Tensor, step: Step, cache: Any = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        spec = self.spec
        q, k, v = (self.get_submodule(f"{name}_proj")(x).unflatten(-1, (spec.n_heads, -1)) for name in "qkv")
        q = q * self.scale * F.softplus(self.per_dim_scale)
        places = torch.arange(spec.before, -spec.after - 1, -1, device=x.device)
        vectors = self.pos_proj(sinusoidal(places, x.shape[-1], "halves").to(q.dtype)[None])[0]
        seen = self._seen(x, step)

        def core(q: Tensor, k: Tensor, v: Tensor, vectors: Tensor) -> Tensor:
            return self._core(q, k, v, vectors, seen)

        read = (q, k, v, vectors)
        y = recomputed(core, *read) if step.checkpointing == "selective" else core(*read)
        return self.o_proj(y[:, : x.shape[1]].flatten(2))

    def _core(self, q: Tensor, k: Tensor, v: Tensor, vectors: Tensor, seen: Tensor) -> Tensor:
        """q, k, v [batch, seq, n_heads, d_head], vectors [distances, width], seen [batch, 1, chunks, chunk, keys] ->
        [batch, chunks * chunk, n_heads, d_head]."""
        spec = self.spec
        chunks = seen.shape[2]
        if fill := chunks * spec.chunk - q.shape[1]:
            q = torch.cat([q, q.new_zeros(len(q), fill, *q.shape[2:])], 1)
        q = q.permute(0, 2, 1, 3)  # [batch, n_heads, chunks * chunk, d_head]
        k, v = (self._beside(each).movedim(-1, 2).contiguous() for each in (k, v))
        near = q.unflatten(2, (chunks, -1)) @ k.permute(0, 3, 1, 4, 2)
        far = (q @ vectors.unflatten(-1, (spec.n_heads, -1)).permute(1, 2, 0)).unflatten(2, (chunks, -1))
        scores = near + _shifted(far, spec.keys)
        scores = (scores / self.cap).tanh() * self.cap
        scores = torch.where(seen, scores, torch.finfo(scores.dtype).min)
        shares = scores.softmax(-1, dtype=torch.float32).to(v.dtype)
        shares = shares.transpose(1, 2).reshape(-1, spec.chunk, spec.keys)
        y = torch.bmm(shares, v.transpose(2, 3).reshape(-1, spec.keys, spec.d_head))
        y = y.unflatten(0, (len(q), chunks, -1)).transpose(2, 3)
        return y.reshape(len(q), -1, spec.n_heads, spec.d_head)

    def _beside(self, x: Tensor) -> Tensor:
        """x [batch, seq, ...] -> [batch, chunks, ..., keys], what each chunk reads."""
        spec = self.spec
        ahead, behind = (x.new_zeros(len(x), n, *x.shape[2:]) for n in (spec.before, spec.after + spec.chunk - 1))
        return torch.cat([ahead, x, behind], 1).unfold(1, spec.keys, spec.chunk)

    def _seen(self, x: Tensor, step: Step) -> Tensor:
        """[batch, 1, chunks, chunk, keys]: which keys are there, within reach of a step."""
        keep = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if step.keep is None else step.keep
        ones = torch.ones(self.spec.chunk, self.spec.keys, dtype=torch.bool, device=x.device)
        reach = ones.triu() & ones.tril(self.spec.before + self.spec.after)
        return self._beside(keep)[:, None, :, None] & reach


def _shifted(scores: Tensor, keys: int) -> Tensor:
    """Scores of distances [..., chunk, distances] -> of keys [..., chunk, keys], each row begun one place later."""
    chunk, distances = scores.shape[-2:]
    flat = F.pad(scores, (0, keys + 1 - distances)).flatten(-2)[..., : chunk * keys]
    return flat.unflatten(-1, (chunk, keys))
