"""ESM-2 and ESM-1b (Lin et al. 2023, doi:10.1126/science.ade2574): BERT for proteins with norms before the blocks, and
rotary positions or a table."""

from __future__ import annotations

from calc.architectures.bert import heads
from calc.architectures.config import Config
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm, Projection, Rope

MASKED = 0.15 * 0.8
"""The share of tokens that were masked in training, by which the others are scaled down again."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' EsmConfig. All classes have a layer that predicts contacts from maps of attention,
    which no pass runs. Scaled tokens are those of a text without masks."""
    for key in ("is_folding_model", "is_decoder", "add_cross_attention"):
        cfg.only(key, False, None, why="an encoder of sequences alone is described")
    parts = cfg.architecture(
        {
            "EsmForMaskedLM": ("mlm",),
            "EsmModel": ("pooler",),
            "EsmForSequenceClassification": ("dense", "classifier"),
            "EsmForTokenClassification": ("token_classifier",),
        },
        usual="EsmForMaskedLM",
    )
    norm = Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_eps", absent=1e-12))
    n_layers, n_heads = cfg.layers("num_hidden_layers"), cfg.size("num_attention_heads")
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", n_heads)
    cfg.only("head_dim", None, cfg.size("hidden_size") // n_heads, why="angles would be those of another width")
    kinds = {"rotary": "rotary", "absolute": "absolute"}
    positions = cfg.choice("position_embedding_type", among=kinds, absent="absolute", null="none")
    mixer = Attention(
        n_heads=n_heads,
        causal=False,
        qkv_bias=True,
        out_bias=True,
        position="rope" if positions == "rotary" else "none",
        rope=Rope(theta=cfg.number("rope_theta", absent=10_000.0)),
        softmax="model",
    )
    layer = LayerGroup(
        count=n_layers,
        mixer=mixer,
        channel=Mlp(d_ff=cfg.size("intermediate_size"), bias=True, activation="gelu"),
        norm=norm,
        residual_dropout=True,
    )
    embedding = _embedding(cfg, norm, placed=positions == "absolute")
    contacts = Projection(name="contacts", d_in=n_layers * n_heads, d_out=1, idle=True)
    tied = cfg.flag("tie_word_embeddings", absent=True)
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_position_embeddings", absent=1026) - embedding.position_offset,
        embedding=embedding,
        layers=(layer,),
        final_norm=norm,
        heads=(contacts, *heads(cfg, parts)),
        head=Head(tied=tied, bias=True, transform=norm, wide_loss=False) if parts == ("mlm",) else None,
    )


def _embedding(cfg: Config, norm: Norm, *, placed: bool) -> Embedding:
    """The table of tokens. placed: with a table of positions, numbered from the padding token's row on."""
    before = cfg.count("pad_token_id", absent=1, null=1) + 1
    return Embedding(
        n_positions=cfg.size("max_position_embeddings", absent=1026) if placed else None,
        position_offset=before if placed else 0,
        norm=norm if cfg.flag("emb_layer_norm_before", absent=False, null=False) else None,
        scale=1 - MASKED if cfg.flag("token_dropout", absent=False, null=False) else 1.0,
    )
