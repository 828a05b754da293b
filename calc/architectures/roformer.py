"""RoFormer (Su et al. 2021, arXiv:2104.09864): BERT's layers with rotary positions in place of a position table."""

from __future__ import annotations

from calc.architectures.bert import encoder, heads, layer_norm, vocabulary_head
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, Embedding, ModelSpec, Rope


def spec(cfg: Config) -> ModelSpec:
    """Neighbouring values of queries and keys turn as pairs, by angles of a table that is held and not trained."""
    parts = cfg.architecture(
        {
            "RoFormerForMaskedLM": ("mlm",),
            "RoFormerForCausalLM": ("lm",),
            "RoFormerModel": (),
            "RoFormerForSequenceClassification": ("dense", "classifier"),
            "RoFormerForTokenClassification": ("token_classifier",),
            "RoFormerForQuestionAnswering": ("span",),
        },
        usual="RoFormerForMaskedLM",
    )
    cfg.only("rotary_value", False, why="values that turn too are not described")
    act = activation(cfg, "hidden_act", absent="gelu")
    embedding = _embedding(cfg)
    made = encoder(cfg, embedding, act, heads(cfg, parts, act), vocabulary_head(cfg, act, parts))
    group = made.layers[0]
    assert isinstance(group.mixer, Attention)
    turned = group.mixer.model_copy(update={"position": "rope", "rope": Rope(interleaved=True)})
    layers = (group.model_copy(update={"mixer": turned}),)
    return made.model_copy(update={"layers": layers})


def _embedding(cfg: Config) -> Embedding:
    """Tokens and token types, normed, and brought to hidden_size where embedding_size differs."""
    d_model, n_heads = cfg.size("hidden_size"), cfg.size("num_attention_heads")
    d_head = cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    if d_head % 2:
        raise Refused(f"{cfg.where}num_attention_heads", "heads of an even width, whose values turn in pairs", n_heads)
    d_embed = cfg.size("embedding_size", absent=d_model, null=d_model)
    own = d_embed != d_model
    return Embedding(
        d_embed=d_embed if own else None,
        project="sum" if own else "tokens",
        project_bias=own,
        n_token_types=cfg.size("type_vocab_size", absent=2),
        norm=layer_norm(cfg),
        n_angles=cfg.size("max_position_embeddings", absent=1536),
        d_angles=d_head,
    )
