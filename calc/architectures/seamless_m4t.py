"""SeamlessM4T and its second version (Barrault et al. 2023, arXiv:2308.11596, arXiv:2312.05187), as they translate
text: an encoder and a decoder as NLLB's. What hears, what makes units of speech of words and what makes sound of these
is not described.
"""

from __future__ import annotations

from calc.architectures.bart import RULES, layer
from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Embedding, Head, ModelSpec, Tower

PREFIX = {"seamless_m4t": "SeamlessM4T", "seamless_m4t_v2": "SeamlessM4Tv2"}
"""How the names of a family's classes begin."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' SeamlessM4Tv2Config; sinusoids that are no parameters, one table for encoder,
    decoder and head. Errors: Refused for a class that hears or speaks, as that of published configs does."""
    usual = f"{PREFIX[cfg.raw['model_type']]}ForTextToText"
    if (named := cfg.named_class()) not in (None, usual):
        why = "translating text; what hears and what speaks is not described"
        raise Refused(f"{cfg.where}architectures", f"{usual} ({why})", named)
    cfg.architecture({usual: True}, usual=usual)
    cfg.only("tie_word_embeddings", True, why="tables of their own are not described")
    d_model = cfg.size("hidden_size")
    sides = {}
    for side in ("encoder", "decoder"):
        cfg.multiple("hidden_size", d_model, f"{side}_attention_heads", cfg.size(f"{side}_attention_heads"))
        act = activation(cfg, "activation_function", absent="relu")
        sides[side] = layer(cfg, side, d_model, act, RULES["nllb-moe"])
    embedding = Embedding(
        scale=d_model**0.5 if cfg.flag("scale_embedding", absent=True) else 1.0,
        sinusoidal=True,
        sinusoid="halves",
        # Counted from behind the position of padding.
        position_offset=cfg.count("pad_token_id", absent=0) + 1,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_position_embeddings", absent=4096),
        embedding=embedding,
        layers=(sides["decoder"],),
        final_norm=LAYER_NORM,
        head=Head(tied=True, wide_loss=False),
        encoder=Tower(
            name="encoder",
            d_model=d_model,
            embedding=embedding.model_copy(update={"shared": True}),
            layers=(sides["encoder"],),
            final_norm=LAYER_NORM,
        ),
    )
