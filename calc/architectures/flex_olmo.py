"""FlexOlmo (arXiv:2507.07024): OLMo 2's layer with OLMoE's experts."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import attention, rms_norm, uniform
from calc.spec import ModelSpec, Moe, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' FlexOlmoConfig: 5 experts a token, whose weights are used as they are."""
    bias = cfg.flag("attention_bias", absent=False)
    norm = rms_norm(cfg, wide=True)
    qk_norm = QkNorm(norm=norm, span="all")
    mixer = attention(cfg, qkv_bias=bias, out_bias=bias, qk_norm=qk_norm, theta=500_000.0)
    experts = Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("num_experts_per_tok", absent=5),
        d_expert=cfg.size("intermediate_size"),
        activation=activation(cfg, "hidden_act", absent="silu"),
        renormalize=cfg.flag("norm_topk_prob", absent=False),
    )
    return uniform(cfg, mixer, experts, norm=norm, placement="output", max_seq_len=4096)
