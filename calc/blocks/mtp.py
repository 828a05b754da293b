"""Multi-token prediction: modules behind the main stack that each predict one token further ahead."""

from __future__ import annotations

from calc.blocks.embedding import TOKEN_TABLE
from calc.blocks.layer import layer
from calc.blocks.surroundings import Surroundings
from calc.sizes import Size
from calc.spec import Head, LayerGroup, Mtp
from calc.spec.load import Load
from calc.trace.shard import VOCABULARY
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def mtp(t: Trace, spec: Mtp, head: Head | None, vocab_size: Size, x: Tensor, load: Load) -> None:
    """Embedding and hidden state [batch * seq, d_model] each -> logits [batch * seq, vocab_size], `count` times.

    FLOPs of a module 4 * tokens * d_model^2, those of its layer and of the model's head, on every token (the last ones
    of a sequence, which have no token so far ahead, are run all the same). Checkpointing treats all but the head as one
    block, as it does a layer of the main stack.
    Source: DeepSeek-V3, arXiv:2412.19437, equations 21 to 23; transformers 5.23, modeling_layers.py, MtpLayer.
    """
    group = LayerGroup.model_construct(mixer=spec.mixer, channel=spec.channel, norm=spec.norm)
    fields = {"calls": spec.count, "copies": spec.count, "component": "mtp"}
    embedded = Tensor(x.rows, x.width)
    with t.part("mtp.{}", x, layer=True, of="other", **fields) as out:
        both = [t.norm("embed_norm", spec.norm, embedded), t.norm("hidden_norm", spec.norm, x)]
        y = t.linear("proj", t.joined(*both, rows=x.rows, width=2 * x.width), x.width)
        y = t.norm("final_norm", spec.norm, layer(t, group, y, load, Surroundings()))
        out.append(y)
    if head is None:
        return
    with t.part("mtp.{}", y, of="other", **fields):
        table = TOKEN_TABLE if head.tied else "/lm_head.weight"
        t.linear("logits", y, vocab_size, key=table, of="lm_head", shard=VOCABULARY)
