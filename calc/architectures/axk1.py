"""A.X K1 (SK Telecom 2026): DeepSeek-V3's latent attention and experts, with a norm behind the experts."""

from __future__ import annotations

from calc.architectures.common import mlp_kinds, stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.deepseek_v3 import expert_groups, latent_attention, routed_experts
from calc.architectures.llama import decoder, dense_or_moe, rms_norm
from calc.spec import LayerGroup, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' AXK1Config: queries from a latent of 1536, one dense layer, one shared expert. The
    class reads mlp_layer_types, or where that is absent first_k_dense_replace."""
    cfg.size("q_lora_rank", absent=1536)
    interleaved = cfg.flag("rope_interleave", absent=True, null=False)
    mixer = latent_attention(cfg, q_rank_absent=1536, interleaved=interleaved)
    norm = rms_norm(cfg)
    n_layers = cfg.layers("num_hidden_layers")
    first, every = cfg.count("first_k_dense_replace", absent=1), cfg.size("moe_layer_freq", absent=1)
    rule = ["moe" if i >= first and i % every == 0 else "dense" for i in range(n_layers)]
    kinds = mlp_kinds(cfg, rule)
    cfg.count("n_shared_experts", absent=1, null=REFUSE)
    channels = dense_or_moe(cfg, kinds, routed_experts(cfg, shared=1, groups=expert_groups(cfg, 8, 4), scale=2.5))

    def layer(kind: str) -> LayerGroup:
        made = LayerGroup(count=1, mixer=mixer, channel=channels[kind], norm=norm)
        return made if kind == "dense" else made.model_copy(update={"placement": "sandwich", "after": "channel"})

    return decoder(cfg, stack(kinds, layer), max_seq_len=32768, norm=norm)
