"""RecurrentGemma (arXiv:2404.07839): Griffin's recurrent blocks, and attention within a window every few layers."""

from __future__ import annotations

from math import frexp, ldexp

from calc.architectures.common import activation, stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, RgLru

_WORDS = {"recurrent": "recurrent", "attention": "sliding"}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' RecurrentGemmaConfig. Its MLP is half as wide as `intermediate_size` says; its
    logits are capped; the context has no bound of its own."""
    d_model, width = cfg.size("hidden_size"), cfg.size("intermediate_size") // 2
    act = activation(cfg, "hidden_activation", absent="gelu_tanh")
    mixers = {"recurrent": _recurrent(cfg), "sliding": _attention(cfg)}
    norm = rms_norm(cfg, unit_offset=True)
    channel = Mlp(d_ff=width, gated=True, bias=True, activation=act)

    def layer(kind: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixers[kind], channel=channel, norm=norm)

    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        embedding=Embedding(scale=_in_bf16(d_model**0.5)),
        **stack(_kinds(cfg), layer),
        final_norm=norm,
        head=Head(
            tied=cfg.flag("tie_word_embeddings", absent=True), softcap=cfg.number("logits_soft_cap", absent=30.0)
        ),
    )


def _kinds(cfg: Config) -> list[str]:
    """The pattern of `block_types`, again and again; transformers repeats it a hundred times at most."""
    cfg.only("layers_block_type", None, why="the class derives it from block_types")
    n_layers, given = cfg.layers("num_hidden_layers"), cfg.raw.get("block_types")
    pattern = ["recurrent", "recurrent", "attention"]
    if "block_types" in cfg.raw:
        length = len(given) if isinstance(given, list) and given else 1
        pattern = cfg.words("block_types", among=tuple(_WORDS), length=length)
    if n_layers > (most := 100 * len(pattern)):
        raise Refused(f"{cfg.where}num_hidden_layers", f"at most {most}, a hundred times block_types", n_layers)
    return [_WORDS[pattern[i % len(pattern)]] for i in range(n_layers)]


def _recurrent(cfg: Config) -> RgLru:
    d_model = cfg.size("hidden_size")
    return RgLru(
        d_inner=cfg.size("lru_width", absent=d_model, null=d_model),
        n_blocks=cfg.size("num_attention_heads"),
        d_conv=cfg.size("conv1d_width", absent=4),
        activation=activation(cfg, "hidden_activation", absent="gelu_tanh"),
    )


def _attention(cfg: Config) -> Attention:
    """Half of a head turns; the output's bias is there whatever `attention_bias` says of the others."""
    fraction = cfg.number("partial_rotary_factor", absent=0.5, null=1.0)
    angles = rope(cfg, fraction=fraction)
    if angles.scaling is not None or angles.proportional:
        raise Refused(f"{cfg.where}rope_parameters", "rope_type default, as the class wants it", "another")
    return attention(
        cfg,
        d_head_absent=cfg.size("hidden_size") // cfg.size("num_attention_heads"),
        qkv_bias=cfg.flag("attention_bias", absent=False),
        out_bias=True,
        window=cfg.size("attention_window_size", absent=2048),
        rope=angles,
    )


def _in_bf16(value: float) -> float:
    """The nearest number of eight significant bits, as the class keeps what it scales tokens with."""
    mantissa, exponent = frexp(value)
    return ldexp(round(ldexp(mantissa, 8)), exponent - 8)
