"""GLM-4.5 and 4.6 (arXiv:2508.06471): grouped-query attention, the first layers dense, experts in the rest."""

from __future__ import annotations

from calc.architectures.common import stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.deepseek_v3 import dense_then_moe, expert_groups, mtp_modules, routed_experts
from calc.architectures.llama import attention, decoder, dense_or_moe, rms_norm
from calc.architectures.rope import rope
from calc.spec import LayerGroup, ModelSpec, Norm, QkNorm


def spec(cfg: Config, *, bias: bool = False, max_seq_len: int = 131072, sections: bool = False) -> ModelSpec:
    """Defaults as in transformers' Glm4MoeConfig: 8 key-value heads, the first layer dense, one shared expert, half of
    each head rotated, one module that predicts a further token. Biases are on queries, keys and values only.

    bias, max_seq_len: what a relative takes where the keys are absent. sections: as in `rope`.
    """
    cfg.only("sliding_window", None, why="no layer of this family has a window")
    norm = rms_norm(cfg, 1e-5)
    normed = QkNorm(norm=Norm(eps=norm.eps)) if cfg.flag("use_qk_norm", absent=False) else None
    biased, turning = cfg.flag("attention_bias", absent=bias), rope(cfg, fraction=0.5, sections=sections)
    mixer = attention(cfg, kv_absent=8, kv_null=REFUSE, qkv_bias=biased, qk_norm=normed, rope=turning)
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg))
    kinds = dense_then_moe(cfg, cfg.layers("num_hidden_layers"), first=1)
    channels = dense_or_moe(cfg, kinds, experts)

    def layer(kind: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixer, channel=channels[kind], norm=norm)

    made = decoder(cfg, stack(kinds, layer), max_seq_len=max_seq_len, norm=norm)
    return made.model_copy(update={"mtp": mtp_modules(cfg, mixer, experts, norm, absent=1)})
