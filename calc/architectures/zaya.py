"""ZAYA1 (Zyphra 2026): attention whose queries and keys pass convolutions, experts that a router of several layers
chooses, and sums of streams that are shifted and scaled."""

from __future__ import annotations

from calc.architectures.common import activation, crossed_stack, window_of
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import Convolved, DeepRouter, LayerGroup, ModelSpec, Moe, Rope

KINDS = {"hybrid": "full", "hybrid_sliding": "sliding"}
"""A word in `layer_types` -> what its attention is."""
THETA = {"full": 5_000_000.0, "sliding": 10_000.0}
"""What the class takes where `rope_parameters` is absent, of half of each head."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' ZayaConfig: 2 key-value heads, heads 128 wide, 16 experts, one for a token
    or none. The stream is in fp32 whatever the model is in."""
    n_layers, norm, bias = (
        cfg.layers("num_hidden_layers"),
        rms_norm(cfg, 1e-5),
        cfg.flag("attention_bias", absent=False),
    )
    window = cfg.size("sliding_window", absent=None, null=None)
    words = cfg.words("layer_types", among=tuple(KINDS), length=n_layers, absent=None, null=None)
    attends = ["full"] * n_layers if words is None else [KINDS[word] for word in words]
    convolved, experts = _convolved(cfg), _experts(cfg)
    turning = {kind: _rope(cfg, kind) for kind in dict.fromkeys(attends)}

    def layer(attend: str, router: str) -> LayerGroup:
        mixer = attention(
            cfg,
            kv_absent=2,
            kv_null=REFUSE,
            d_head_absent=128,
            qkv_bias=bias,
            out_bias=bias,
            rope=turning[attend],
            window=window_of(attend, window),
            convolved=convolved,
        )
        return LayerGroup(
            count=1, mixer=mixer, channel=experts[router], norm=norm, block_scale=True, kept_scale=True, shifted=True
        )

    layers = crossed_stack(attends, ["first"] + ["later"] * (n_layers - 1), layer)
    head_bias = cfg.flag("lm_head_bias", absent=False)
    return decoder(
        cfg, layers, max_seq_len=131072, tied=True, head_bias=head_bias, norm=norm, embed_weighed=True, embed_wide=True
    )


def _convolved(cfg: Config) -> Convolved:
    made = Convolved(d_conv=cfg.size("cca_time0", absent=2), d_head_conv=cfg.size("cca_time1", absent=2))
    if made.d_conv + made.d_head_conv == 2:
        raise Refused(f"{cfg.where}cca_time0", "2 or more beside a cca_time1 of 1, or nothing is convolved", 1)
    return made


def _experts(cfg: Config) -> dict[str, Moe]:
    """Of the first layer, and of those whose router reads what the one before it made."""
    cfg.only("num_experts_per_tok", 1, why="the class refuses it")
    first = Moe(
        n_experts=cfg.size("num_experts", absent=16),
        top_k=1,
        d_expert=cfg.size("moe_intermediate_size", absent=2048),
        activation=activation(cfg, "hidden_act", absent="silu"),
        renormalize=False,
        correction=True,
        skips=True,
        deep_router=DeepRouter(d_router=cfg.size("router_hidden_size", absent=256), norm=rms_norm(cfg, 1e-5)),
    )
    assert first.deep_router is not None
    carries = first.deep_router.model_copy(update={"carries": True})
    return {"first": first, "later": first.model_copy(update={"deep_router": carries})}


def _rope(cfg: Config, kind: str) -> Rope:
    """Heads are put together of what turns and what does not, even where nothing is left that does not."""
    if cfg.raw.get("rope_parameters") is None:
        return Rope(theta=THETA[kind], fraction=0.5, joined=True)
    own = rope(cfg, layers=next(word for word, each in KINDS.items() if each == kind))
    return own.model_copy(update={"joined": True})
