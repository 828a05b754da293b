"""ELECTRA (Clark et al. 2020, arXiv:2003.10555): a discriminator and the small generator it is trained against.

They are two models with two configs; `architectures` says which one a config describes.
"""

from __future__ import annotations

from calc.architectures.bert import encoder, heads, layer_norm, tables
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import Activation, Head, ModelSpec, Projection


def spec(cfg: Config) -> ModelSpec:
    """BERT's layers, an embedding of its own width, and heads without a pooler."""
    parts = cfg.architecture(
        {
            "ElectraForPreTraining": ("discriminator",),
            "ElectraForMaskedLM": ("mlm",),
            "ElectraForCausalLM": ("lm",),
            "ElectraModel": (),
            "ElectraForSequenceClassification": ("dense", "classifier"),
            "ElectraForMultipleChoice": ("summary", "choice"),
            "ElectraForTokenClassification": ("token_classifier",),
            "ElectraForQuestionAnswering": ("span",),
        },
        usual="ElectraForPreTraining",
    )
    act = activation(cfg, "hidden_act", absent="gelu")
    d_embed, d_model = cfg.size("embedding_size", absent=128), cfg.size("hidden_size")
    embedding = tables(cfg, n_token_types=2, d_embed=None if d_embed == d_model else d_embed)
    tied = cfg.flag("tie_word_embeddings", absent=True)
    head = Head(tied=tied, bias=True, transform=layer_norm(cfg), wide_loss="lm" in parts)
    writes = "mlm" in parts or "lm" in parts
    return encoder(cfg, embedding, act, _heads(cfg, parts, act), head if writes else None)


def _heads(cfg: Config, parts: tuple[str, ...], act: Activation) -> tuple[Projection, ...]:
    if parts == ("discriminator",):
        return (
            Projection(name="dense", activation=act),
            Projection(name="replaced", d_out=1, reads="dense"),
        )
    if parts == ("summary", "choice"):
        cfg.only("summary_type", "first", why="one vector a sequence is read")
        own = cfg.flag("summary_use_proj", absent=True)
        if not own:
            act = activation(cfg, "summary_activation", absent="gelu", null=None)
            return (Projection(name="classifier", d_out=1, per="sequence", activation_before=act),)
        summary = activation(cfg, "summary_activation", absent="gelu", null=None)
        dense = Projection(name="dense", per="sequence", activation=summary)
        return dense, Projection(name="classifier", d_out=1, per="sequence", reads="dense")
    made = heads(cfg, parts)
    if parts and parts[0] == "dense":
        return (made[0].model_copy(update={"activation": "gelu"}), *made[1:])
    return made
