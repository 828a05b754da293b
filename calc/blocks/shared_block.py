"""A block whose weights several layers use, with low-rank updates of each layer's own."""

from __future__ import annotations

from calc.blocks.attention import attention
from calc.blocks.mlp import mlp
from calc.blocks.surroundings import Surroundings
from calc.spec import Norm, SharedBlock
from calc.spec.load import Load
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def shared_block(t: Trace, spec: SharedBlock, norm: Norm, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """norm, attention, norm, feed-forward block and a matrix [d_model, d_model] of the layer's own.

    It reads the stream x beside what entered the first layer, [batch * seq, 2 * d_model], and attention gives d_model.
    norm: of both norms. Source: transformers 5.23, models/zamba2/modeling_zamba2.py, Zamba2AttentionDecoderLayer and
    Zamba2HybridLayer.
    """
    assert around.embedded is not None
    with t.part("shared_block", x, around.embedded, of="other") as out:
        both = t.joined(x, around.embedded, rows=x.rows, width=2 * x.width)
        with t.in_common(spec.adapter):
            read = t.norm("attention_norm", norm, both)
            with t.part("attention", read, of="attention") as of_attention:
                of_attention.append(attention(t, spec.attention, read, load, around, d_out=x.width))
            read = t.norm("channel_norm", norm, of_attention[0])
            with t.part("mlp", read, of="mlp") as of_mlp:
                of_mlp.append(mlp(t, spec.mlp, read))
        out.append(t.linear("out_proj", of_mlp[0], x.width))
    return out[0]
