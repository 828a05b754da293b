"""Latent attention (MLA) over its cache, in two forms that give the same: expanded and absorbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend, needs

if TYPE_CHECKING:
    from torch import Tensor


class Latent(Backend):
    """What both forms share (DeepSeek-V2, arXiv:2405.04434, section 2.1; the names are those of calc.spec.Mla).

    forward(q, cache, expand, shape): q [batch, heads, seq, d_nope + d_rope]; cache [batch, 1, keys, kv_rank + d_rope],
    each token's latent and its rotary key; expand [heads, kv_rank, d_nope + d_value], from a latent to a head's key and
    value. Rotations have been applied.
    """

    function = "latent"
    features = frozenset({"causal", "offset", "lengths", "window", "empty", "d_value", "groups", "backward"})
    dtypes = Backend.dtypes | {"fp64"}

    def supports(self, shape: AttentionShape, device: str = "cpu") -> str | None:
        if shape.kv_rank is None or shape.d_rope is None:
            return "needs latent attention: kv_rank and d_rope"
        if shape.d_rope >= shape.d_head:
            return "needs d_head = d_nope + d_rope above d_rope"
        if shape.kv_heads != shape.heads:
            return "expands keys and values of its own for every head"
        if shape.dtype not in self.dtypes:
            return f"has no {shape.dtype}"
        missing = sorted(needs(shape) - self.features)
        return f"has no {missing[0]}" if missing else None


class LatentNaive(Latent):
    """Expands keys and values of every cached token, then attends as usual."""

    name = "mla_naive"
    title = "latent attention, keys and values expanded"

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        import torch

        latents, rotary = k.split((shape.kv_rank, shape.d_rope), -1)
        # One product of all tokens with all heads' matrices: a product for each sequence would copy the matrices.
        expanded = torch.einsum("bkr,hre->bhke", latents.squeeze(1), v)
        keys, values = expanded.split((shape.d_head - shape.d_rope, shape.d_value), -1)
        keys = torch.cat((keys, rotary.expand(-1, shape.heads, -1, -1)), -1)
        return _weights(q @ keys.mT, shape) @ values


class LatentAbsorbed(Latent):
    """Multiplies queries with the keys' matrix and outputs with the values': tokens stay latents, shared by all heads
    (section 2.1.2: W_UK is absorbed in W_Q, and W_UV in W_O)."""

    name = "mla_absorbed"
    title = "latent attention, matrices absorbed"

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        import torch

        to_keys, to_values = v.split((shape.d_head - shape.d_rope, shape.d_value), -1)
        plain, rotary = q.split((shape.d_head - shape.d_rope, shape.d_rope), -1)
        # [batch, heads, seq, kv_rank + d_rope]: heads lie below one another against the one shared key.
        queries = torch.cat((torch.einsum("bhsd,hrd->bhsr", plain, to_keys), rotary), -1)
        scores = (queries.flatten(1, 2)[:, None] @ k.mT).view(shape.batch, shape.heads, shape.seq, shape.keys)
        weights = _weights(scores, shape).view(shape.batch, 1, shape.heads * shape.seq, shape.keys)
        mixed = (weights @ k[..., : shape.kv_rank]).view(shape.batch, shape.heads, shape.seq, -1)
        return torch.einsum("bhsr,hrd->bhsd", mixed, to_values)


def _weights(scores: Tensor, shape: AttentionShape) -> Tensor:
    """Softmax of scaled scores [batch, heads, seq, keys] under the shape's masks; zeros where a query sees nothing."""
    import torch

    from harness.kernels.inputs import visible

    scores = scores * shape.d_head**-0.5
    seen = visible(shape, scores.device)
    if seen is None:
        return torch.softmax(scores, -1)
    empty = ~seen.any(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(~seen & ~empty, -torch.inf), -1).masked_fill(empty, 0)
