"""A block whose weights several layers use, with low-rank updates of each layer's own."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.adapters import low_rank
from calc.blocks.attention import attention
from calc.blocks.linear import elementwise, linear, norm
from calc.blocks.mlp import mlp
from calc.load import Load
from calc.op import Op, Part
from calc.sizes import Size
from calc.spec import Norm, SharedBlock


def shared_block(spec: SharedBlock, norm_spec: Norm, d_model: Size, load: Load) -> Part:
    """norm, attention, norm, feed-forward block and a matrix [d_model, d_model] of the layer's own.

    Attention reads [batch, seq, 2 * d_model] and gives d_model. norm_spec: of both norms.
    Source: transformers 5.23, models/zamba2/modeling_zamba2.py, Zamba2AttentionDecoderLayer and Zamba2HybridLayer.
    """
    tokens, both = load.tokens, 2 * load.tokens * d_model
    blocks = (
        elementwise("join", "other", "copy", both, both, from_chain=0),
        norm("attention_norm", norm_spec, (2 * d_model,), tokens),
        attention(spec.attention, 2 * d_model, load, d_out=d_model),
        norm("channel_norm", norm_spec, (d_model,), tokens),
        mlp(spec.mlp, d_model, tokens),
    )
    body = Part("shared_block", blocks)
    if spec.adapter is not None:
        body = low_rank(spec.adapter, body, own=None)
    own = linear("out_proj", tokens, d_model, d_model, "other")
    return replace(body, body=(*_in_common(body).body, own))


def _in_common(part: Part) -> Part:
    """`part` with every weight but those of low-rank updates one for all layers of the group."""

    def marked(child: Part | Op) -> Part | Op:
        if isinstance(child, Part):
            return _in_common(child)
        weights = tuple(replace(each, common=".lora_" not in each.key) for each in child.weights)
        return replace(child, weights=weights)

    return replace(part, body=tuple(map(marked, part.body)))
