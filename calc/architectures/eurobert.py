"""EuroBERT (Boizard et al. 2025, arXiv:2503.05500): Llama's layers whose tokens all see one another."""

from __future__ import annotations

from calc.architectures.bert import Parts, heads
from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.spec import Head, ModelSpec, Projection

POOLS = {"bos": "first", "mean": "mean", "late": "late"}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' EuroBertConfig: as many key-value heads as heads."""
    parts: Parts = cfg.architecture(
        {
            "EuroBertForMaskedLM": ("mlm",),
            "EuroBertModel": (),
            "EuroBertForSequenceClassification": ("dense", "classifier"),
            "EuroBertForTokenClassification": ("token_classifier",),
        },
        usual="EuroBertForMaskedLM",
    )
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    bias, mlp_bias = cfg.flag("attention_bias", absent=False), cfg.flag("mlp_bias", absent=False)
    mixer = attention(cfg, d_head_null=None, causal=False, qkv_bias=bias, out_bias=bias)
    made = uniform(cfg, mixer, gated_mlp(cfg, bias=mlp_bias), eps=1e-5, max_seq_len=8192)
    assert made.head is not None
    head = Head(tied=made.head.tied, bias=mlp_bias, wide_loss=False) if parts == ("mlm",) else None
    return made.model_copy(update={"head": head, "heads": _heads(cfg, parts)})


def _heads(cfg: Config, parts: Parts) -> tuple[Projection, ...]:
    """A classifier reads a dense layer, of one vector a sequence or, pooled late, of each token."""
    if "dense" not in parts:
        return heads(cfg, parts)
    pool = cfg.choice("classifier_pooling", among=POOLS, absent="late")
    if pool == "late":
        dense = Projection(name="dense", activation="gelu")
        return dense, Projection(name="classifier", d_out=cfg.labels(), reads="dense")
    dense = Projection(name="dense", per="sequence", pool="mean" if pool == "mean" else "first", activation="gelu")
    return dense, Projection(name="classifier", d_out=cfg.labels(), per="sequence", reads="dense")
