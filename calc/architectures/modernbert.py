"""ModernBERT (Warner et al. 2024, arXiv:2412.13663): BERT with rotary positions, gated MLPs, norms before the blocks
and windows in two layers of three. Also its decoder (Ettin: Weller et al. 2025, arXiv:2507.11412)."""

from __future__ import annotations

from typing import Any

from calc.architectures.bert import Parts
from calc.architectures.bert import heads as bert_heads
from calc.architectures.common import activation, layer_kinds, no_own_d_head, stack
from calc.architectures.config import Config
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm, Projection

WORDS = {"sliding": "sliding_attention", "full": "full_attention"}
THETA = {"sliding": ("local_rope_theta", 10_000.0), "full": ("global_rope_theta", 160_000.0)}


def spec(cfg: Config) -> ModelSpec:
    """No position table; the first layer reads the normed embedding as it is; a dense layer and a norm before any head.

    Defaults as in transformers' ModernBertConfig and ModernBertDecoderConfig.
    """
    causal = cfg.raw["model_type"] == "modernbert-decoder"
    parts = _decoder_parts(cfg) if causal else _encoder_parts(cfg)
    no_own_d_head(cfg)
    cfg.only("sparse_prediction", False, why="logits of all tokens are counted")
    norm = Norm(
        kind="layernorm", bias=cfg.flag("norm_bias", absent=False), eps=cfg.number("norm_eps", absent=1e-5, null=1e-5)
    )
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_position_embeddings", absent=8192),
        embedding=Embedding(norm=norm),
        **_layers(cfg, norm, causal),
        final_norm=norm,
        heads=_heads(cfg, parts, norm),
        head=_vocabulary_head(cfg, norm) if parts in (("mlm",), ("lm",)) else None,
    )


def _encoder_parts(cfg: Config) -> Parts:
    return cfg.architecture(
        {
            "ModernBertForMaskedLM": ("mlm",),
            "ModernBertModel": (),
            "ModernBertForSequenceClassification": ("pooler", "classifier"),
            "ModernBertForMultipleChoice": ("pooler", "choice"),
            "ModernBertForTokenClassification": ("transform", "token_classifier"),
            "ModernBertForQuestionAnswering": ("transform", "span"),
        },
        usual="ModernBertForMaskedLM",
    )


def _decoder_parts(cfg: Config) -> Parts:
    return cfg.architecture(
        {
            "ModernBertDecoderForCausalLM": ("lm",),
            "ModernBertDecoderModel": (),
            "ModernBertDecoderForSequenceClassification": ("transform", "last_token"),
        },
        usual="ModernBertDecoderForCausalLM",
    )


def _layers(cfg: Config, norm: Norm, causal: bool) -> dict[str, Any]:
    """Layers of which every third sees all tokens, the others `local_attention` / 2 to either side, or up to that many
    behind, themselves included, in the decoder. The first has no norm before its attention."""
    n_layers, every = cfg.layers("num_hidden_layers"), cfg.size("global_attn_every_n_layers", absent=3)
    kinds = layer_kinds(cfg, ["sliding" if i % every else "full" for i in range(n_layers)])
    half = cfg.size("local_attention", absent=128) // 2
    cfg.only("sliding_window", None, half, why="half of local_attention")
    if half == 0:
        raise Refused(f"{cfg.where}local_attention", "a number from 2 on", cfg.raw["local_attention"])
    if not causal and "sliding" in kinds:
        cfg.notes.append("windows to both sides hide tokens; as in eager attention, all products are counted")
    bias, mlp_bias = cfg.flag("attention_bias", absent=False), cfg.flag("mlp_bias", absent=False)
    mlp = Mlp(
        d_ff=cfg.size("intermediate_size"),
        gated=True,
        fused=True,
        bias=mlp_bias,
        activation=activation(cfg, "hidden_activation", absent="gelu"),
    )

    def layer(name: str) -> LayerGroup:
        kind = name.removesuffix("_first")
        theta_key, theta = THETA[kind]
        mixer = Attention(
            n_heads=cfg.size("num_attention_heads"),
            causal=causal,
            qkv_bias=bias,
            out_bias=bias,
            fused=not causal,
            window=None if kind == "full" else half if causal else half + 1,
            rope=rope(cfg, theta=theta, layers=WORDS[kind], theta_key=theta_key),
        )
        return LayerGroup(count=n_layers, mixer=mixer, channel=mlp, norm=norm, first_norm=name == kind)

    return stack([f"{kinds[0]}_first", *kinds[1:]], layer)


def _activation(cfg: Config) -> Any:
    return activation(cfg, "classifier_activation", absent="gelu")


def _vocabulary_head(cfg: Config, norm: Norm) -> Head:
    return Head(
        tied=cfg.flag("tie_word_embeddings", absent=True),
        bias=cfg.flag("decoder_bias", absent=True),
        transform=norm,
        transform_bias=cfg.flag("classifier_bias", absent=False),
        activation=_activation(cfg),
    )


def _heads(cfg: Config, parts: Parts, norm: Norm) -> tuple[Projection, ...]:
    """A classifier reads a dense layer with an activation and a norm, of each token or of one vector a sequence."""
    if not parts or parts[0] not in ("pooler", "transform"):
        return ()
    once = parts[0] == "pooler"
    pool: Any = cfg.choice("classifier_pooling", among={"cls": "first", "mean": "mean"}, absent="first")
    dense = Projection(
        name="dense",
        bias=cfg.flag("classifier_bias", absent=False),
        per="sequence" if once else "token",
        pool=pool if once else "first",
        activation=_activation(cfg),
        norm=norm,
    )
    if parts[1] == "last_token":
        return dense, Projection(name="classifier", d_out=cfg.labels(), bias=dense.bias, reads="dense")
    (classifier,) = bert_heads(cfg, parts[1:])
    return dense, classifier.model_copy(update={"reads": "dense"})
