"""Multi-token prediction: modules behind the main stack that each predict one token further ahead."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.embedding import TOKEN_TABLE
from calc.blocks.linear import linear, norm
from calc.load import Load
from calc.op import Op, Part
from calc.sizes import Size
from calc.spec import Head, Mtp


def mtp(
    spec: Mtp, layer: tuple[Part | Op, ...], head: Head | None, vocab_size: Size, d_model: Size, load: Load
) -> tuple[Part, ...]:
    """Embedding and hidden state [batch, seq, d_model] each -> logits [batch, seq, vocab_size], `count` times.

    FLOPs of a module 4 * tokens * d_model^2, those of its layer and of the model's head, on every token (the last ones
    of a sequence, which have no token so far ahead, are run all the same). `layer` is laid out already. Checkpointing
    treats all but the head as one block, as it does a layer of the main stack.
    Source: DeepSeek-V3, arXiv:2412.19437, equations 21 to 23; transformers 5.23, modeling_layers.py, MtpLayer.
    """
    body: tuple[Part | Op, ...] = (
        norm("embed_norm", spec.norm, (d_model,), load.tokens),
        norm("hidden_norm", spec.norm, (d_model,), load.tokens, follows=False),
        linear("proj", load.tokens, 2 * d_model, d_model, "other"),
        *layer,
        norm("final_norm", spec.norm, (d_model,), load.tokens),
    )
    modules = Part("mtp.{}", body, calls=spec.count, copies=spec.count, layer=True, component="mtp")
    if head is None:
        return (modules,)
    table = TOKEN_TABLE if head.tied else "/lm_head.weight"
    logits = linear("logits", load.tokens, d_model, vocab_size, "lm_head", table=table)
    return modules, replace(modules, body=(logits,), layer=False)
