"""OLMoE (arXiv:2409.02060)."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder
from calc.spec.model import LayerGroup, ModelSpec, Moe, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Llama's block with a norm on all queries and all keys of a token, and a mixture of experts in every layer."""
    if (own := d_head(cfg, d_model, n_heads)) not in (None, d_model // n_heads):
        raise Refused(f"{cfg.where}head_dim", f"hidden_size / num_attention_heads = {d_model // n_heads}, the norms' span", own)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=attention(cfg, qk_norm=QkNorm(span="all")),
        channel=Moe(
            n_experts=cfg.size("num_experts", "num_local_experts"),
            top_k=cfg.size("num_experts_per_tok"),
            d_expert=cfg.size("intermediate_size"),
            activation=activation(cfg, "hidden_act", absent="silu"),
        ),
    )
    return decoder(cfg, {"layers": (layer,)}, tied=False, max_seq_len=4096)
