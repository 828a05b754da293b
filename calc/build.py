"""From a description to the tree of ops that runs it."""

from __future__ import annotations

from calc.blocks.attention import attention
from calc.blocks.embedding import embedding, head
from calc.blocks.linear import norm
from calc.blocks.mlp import mlp
from calc.blocks.moe import moe
from calc.load import Load
from calc.op import Op, Part
from calc.sizes import Size
from calc.spec.model import LayerGroup, ModelSpec, Moe


def build(spec: ModelSpec, load: Load) -> Part:
    """The tree of `spec` under `load`. Sizes in either may be ints, sympy expressions or float64 arrays."""
    d_model = spec.d_model
    body: list[Part | Op] = [embedding(spec.embedding, spec.vocab_size, d_model, load)]
    several = len(spec.layers) > 1
    for group in spec.layers:
        body.append(
            Part(
                f"layers.{{{group.name}}}" if several else "layers.{}",
                _layer(group, d_model, load),
                calls=group.count,
                copies=group.count,
                layer=True,
                indices=_indices(spec, group),
            )
        )
    if spec.final_norm is not None:
        body.append(norm("final_norm", spec.final_norm, (d_model,)))
    body.append(head(spec.head, spec.embedding, spec.vocab_size, d_model, load))
    return Part("", tuple(body))


def _layer(group: LayerGroup, d_model: Size, load: Load) -> tuple[Part | Op, ...]:
    """One layer's ops in the order they run, norms where `placement` puts them."""

    def normed(name: str) -> Op:
        return norm(name, group.norm, (d_model,))

    mixer = attention(group.mixer, d_model, load)
    if isinstance(group.channel, Moe):
        channel = moe(group.channel, d_model, load.tokens)
    else:
        channel = mlp(group.channel, d_model, load.tokens)
    match group.placement:
        case "pre":
            return normed("attention_norm"), mixer, normed("channel_norm"), channel
        case "post":
            return mixer, normed("attention_norm"), channel, normed("channel_norm")
        case "output":
            return mixer, normed("attention_post_norm"), channel, normed("channel_post_norm")
        case "sandwich":
            before = (normed("attention_norm"), mixer, normed("attention_post_norm"))
            return *before, normed("channel_norm"), channel, normed("channel_post_norm")
        case "parallel":
            return normed("attention_norm"), mixer, channel
        case "parallel-two-norms":
            return normed("attention_norm"), normed("channel_norm"), mixer, channel


def _indices(spec: ModelSpec, group: LayerGroup) -> tuple[int, ...] | None:
    """The numbers of this group's layers; None where there is one group, or where sizes are no ints."""
    if len(spec.layers) == 1:
        return None
    if spec.schedule is not None:
        return tuple(i for i, name in enumerate(spec.schedule) if name == group.name)
    if not all(isinstance(g.count, int) for g in spec.layers):
        return None
    start = 0
    for other in spec.layers:
        if other.name == group.name:
            break
        start += other.count
    return tuple(range(start, start + group.count))
