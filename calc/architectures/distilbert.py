"""DistilBERT (Sanh et al. 2019, arXiv:1910.01108): half of BERT's layers, without token types and pooler."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm, Projection

LAYER_NORM = Norm(kind="layernorm", bias=True, eps=1e-12)
PRE = Projection(name="dense", per="sequence", activation="relu")


def spec(cfg: Config) -> ModelSpec:
    """BERT's layers under other names of their sizes; sinusoidal positions are a table all the same."""
    kind = cfg.architecture(
        {
            "DistilBertForMaskedLM": "mlm",
            "DistilBertModel": "",
            "DistilBertForSequenceClassification": "classifier",
            "DistilBertForMultipleChoice": "choice",
            "DistilBertForTokenClassification": "token_classifier",
            "DistilBertForQuestionAnswering": "span",
        },
        usual="DistilBertForMaskedLM",
    )
    d_model, n_heads = cfg.size("dim"), cfg.size("n_heads")
    cfg.multiple("dim", d_model, "n_heads", n_heads)
    act = activation(cfg, "activation", absent="gelu")
    n_positions = cfg.size("max_position_embeddings", absent=512)
    layer = LayerGroup(
        count=cfg.layers("n_layers"),
        mixer=Attention(n_heads=n_heads, causal=False, qkv_bias=True, out_bias=True, position="none", softmax="model"),
        channel=Mlp(d_ff=cfg.size("hidden_dim"), bias=True, activation=act),
        norm=LAYER_NORM,
        placement="post",
    )
    tied = cfg.flag("tie_word_embeddings", absent=True)
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions, norm=LAYER_NORM),
        layers=(layer,),
        final_norm=None,
        heads=_heads(cfg, kind),
        head=Head(tied=tied, bias=True, transform=LAYER_NORM, activation=act, wide_loss=False)
        if kind == "mlm"
        else None,
    )


def _heads(cfg: Config, kind: str) -> tuple[Projection, ...]:
    match kind:
        case "classifier":
            return PRE, Projection(name="classifier", d_out=cfg.labels(), per="sequence", reads="dense")
        case "choice":
            return PRE, Projection(name="classifier", d_out=1, per="sequence", reads="dense")
        case "token_classifier":
            return (Projection(name="classifier", d_out=cfg.labels()),)
        case "span":
            if (labels := cfg.labels()) != 2:
                raise Refused("num_labels", "2, both ends of a span", labels)
            return (Projection(name="span", d_out=2),)
    return ()
