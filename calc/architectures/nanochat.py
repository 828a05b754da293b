"""nanochat (Karpathy 2025): norms without weights, one of them on the embedded tokens, queries and keys normed after
they turn, backwards, and a plain MLP with a squared ReLU."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import attention, uniform
from calc.architectures.rope import rope
from calc.spec import Mlp, ModelSpec, Norm, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' NanoChatConfig: as many key-value heads as heads, logits capped at 15."""
    norm = Norm(affine=False, eps=cfg.number("rms_norm_eps", absent=1e-6))
    bias = cfg.flag("attention_bias", absent=False)
    turning = rope(cfg).model_copy(update={"backwards": True})
    mixer = attention(cfg, qkv_bias=bias, out_bias=bias, qk_norm=QkNorm(norm=norm, turned=True), rope=turning)
    channel = Mlp(d_ff=cfg.size("intermediate_size"), activation=activation(cfg, "hidden_act", absent="relu2"))
    softcap = cfg.number("final_logit_softcapping", absent=15.0, null=None)
    return uniform(cfg, mixer, channel, norm=norm, max_seq_len=2048, embed_norm=norm, logit_softcap=softcap)
