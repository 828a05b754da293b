"""XLNet (Yang et al. 2019, arXiv:1906.08237): Transformer-XL's distances in layers whose tokens all see one another."""

from __future__ import annotations

from calc.architectures.bert import heads
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm, Projection

Parts = tuple[str, ...]


def spec(cfg: Config) -> ModelSpec:
    """No biases in attention, norms behind the blocks; what pretraining's second stream starts from is never run.
    Defaults as in transformers' XLNetConfig."""
    parts = cfg.architecture(
        {
            "XLNetLMHeadModel": ("lm",),
            "XLNetModel": (),
            "XLNetForSequenceClassification": ("summary", "classifier"),
            "XLNetForMultipleChoice": ("summary", "choice"),
            "XLNetForTokenClassification": ("token_classifier",),
            "XLNetForQuestionAnsweringSimple": ("span",),
        },
        usual="XLNetLMHeadModel",
    )
    cfg.only("attn_type", "bi", why="tokens that see those before them alone are not described")
    cfg.only("bi_data", False, why="halves of a batch that run backwards are not described")
    if cfg.number("clamp_len", absent=-1) > 0:
        raise Refused(
            f"{cfg.where}clamp_len", "-1, since distances that are cut are not described", cfg.raw["clamp_len"]
        )
    cfg.notes.append("counted as it reads texts, without segments and without the second stream of pretraining")
    for key in ("d_model", "n_head"):
        cfg.under_own_name(key, "the width of a head")
    d_model, n_heads = cfg.size("d_model"), cfg.size("n_head")
    d_head = cfg.multiple("d_model", d_model, "n_head", n_heads)
    cfg.only("d_head", d_head, None, why="the class wants d_model / n_head")
    if d_model % 2:
        raise Refused(f"{cfg.where}d_model", "an even width, of sines and cosines", d_model)
    layer = LayerGroup(
        count=cfg.layers("n_layer"),
        mixer=Attention(n_heads=n_heads, causal=False, position="xlnet", softmax="model"),
        channel=Mlp(d_ff=cfg.size("d_inner"), bias=True, activation=activation(cfg, "ff_activation", absent="gelu")),
        norm=Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_eps", absent=1e-12)),
        placement="post",
        residual_dropout=True,
        outer_dropout="both",
    )
    masked = Projection(name="masked", d_out=1, bias=False, idle=True)
    tied = cfg.flag("tie_word_embeddings", absent=True)
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        embedding=Embedding(),
        layers=(layer,),
        final_norm=None,
        heads=(masked, *_heads(cfg, parts)),
        head=Head(tied=tied, bias=True, wide_loss=False) if parts == ("lm",) else None,
    )


def _heads(cfg: Config, parts: Parts) -> tuple[Projection, ...]:
    """BERT's, but that what is told of a text is read from its last token through a layer of its own."""
    if not parts or parts[0] != "summary":
        return heads(cfg, parts)
    cfg.only("summary_type", "last", why="the last token is read")
    cfg.only("summary_use_proj", True, why="a dense layer stands before the classifier")
    cfg.only("summary_activation", "tanh", why="the layer's activation")
    cfg.only("summary_proj_to_labels", False, None, why="the dense layer is as wide as the model")
    dense = Projection(name="dense", per="sequence", pool="last", activation="tanh")
    labels = 1 if parts[1] == "choice" else cfg.labels()
    return dense, Projection(name="classifier", d_out=labels, per="sequence", reads="dense")
