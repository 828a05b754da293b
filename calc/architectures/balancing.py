"""`output_router_logits`: in training a loss is added that holds routers to even shares, and keeps a softmax of what
each of them gives.

Source: transformers 5.23, `load_balancing_loss_func` of each modeling file, after Fedus et al. 2021 (arXiv:2101.03961),
equations 4 to 6: ahead of the means a softmax of each layer's logits, in their own number format. The choice of experts
from that has no gradient.
"""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.unread import language_models
from calc.spec import ModelSpec, Moe

KEY = "output_router_logits"
NARROW = (
    *("dbrx", "deepseek_v4", "flex_olmo", "gpt_oss", "jamba", "mellum", "minimax", "minimax_m2", "mixtral", "olmoe"),
    *("phimoe", "qwen2_moe", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_moe", "qwen3_next", "qwen3_vl_moe"),
    *("qwen4_exp", "qwen4_exp_text"),
)
"""Families whose routers give logits in the stream's number format."""
WIDE = (
    *("ernie4_5_moe", "flint", "glm4v_moe", "glm5_next", "granitemoe", "granitemoe_swa", "granitemoehybrid"),
    *("granitemoeshared", "laguna"),
)
"""Those whose routers give them in float32."""
UNCOUNTED = ("doge", "jetmoe", "nllb-moe", "qwen3_omni_moe", "qwen3_omni_moe_thinker")
"""Those whose loss is another, or reads other things too."""


def with_balance(cfg: Config, spec: ModelSpec, family: str) -> ModelSpec:
    """`spec` whose routers are held to even shares, where the config asks for that and the family's class does it."""
    if family not in (*NARROW, *WIDE, *UNCOUNTED):
        return spec
    sections = language_models(cfg) or [cfg]
    if not any(each.flag(KEY, absent=False, null=False) for each in sections if KEY in each.raw):
        return spec
    if family in UNCOUNTED:
        cfg.notes.append(f"{KEY} is true: what the loss that holds routers to even shares keeps is not counted")
        return spec
    held = "stream" if family in NARROW else "fp32"

    def of(channel: object) -> object:
        # Experts that a table chooses are held to nothing.
        if not isinstance(channel, Moe) or channel.by_token:
            return channel
        return channel.model_copy(update={"balanced": held})

    layers = tuple(each.model_copy(update={"channel": of(each.channel)}) for each in spec.layers)
    return spec.model_copy(update={"layers": layers})
