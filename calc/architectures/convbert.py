"""ConvBERT (Jiang et al. 2020, arXiv:2008.02496): BERT's layers whose attention shares its place with a convolution of
spans. As in transformers 5.23."""

from __future__ import annotations

from calc.architectures.bert import encoder, heads, layer_norm, tables
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, Head, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """An embedding of its own width, fewer and narrower heads, and beside them as many of the convolution."""
    parts = cfg.architecture(
        {
            "ConvBertForMaskedLM": ("mlm",),
            "ConvBertModel": (),
            "ConvBertForSequenceClassification": ("dense", "classifier"),
            "ConvBertForTokenClassification": ("token_classifier",),
            "ConvBertForQuestionAnswering": ("span",),
        },
        usual="ConvBertForMaskedLM",
    )
    cfg.only("num_groups", 1, why="matrices in groups are not described")
    cfg.only("is_decoder", False, None, why="the tokens of this family always see one another")
    act = activation(cfg, "hidden_act", absent="gelu")
    d_embed, d_model = cfg.size("embedding_size", absent=768), cfg.size("hidden_size")
    embedding = tables(cfg, n_token_types=2, d_embed=None if d_embed == d_model else d_embed)
    head = None
    if parts == ("mlm",):
        tied = cfg.flag("tie_word_embeddings", absent=True)
        head = Head(tied=tied, bias=True, transform=layer_norm(cfg), wide_loss=False)
    made = encoder(cfg, embedding, act, heads(cfg, parts, act), head)
    group = made.layers[0]
    layers = (group.model_copy(update={"mixer": _attention(cfg, d_model)}),)
    return made.model_copy(update={"layers": layers})


def _attention(cfg: Config, d_model: int) -> Attention:
    """Of the heads that are named, one of `head_ratio` stays, at least one; half of each head's width is the
    convolution's."""
    n_heads = max(cfg.size("num_attention_heads") // cfg.size("head_ratio", absent=2), 1)
    width = cfg.multiple("hidden_size", d_model, "num_attention_heads / head_ratio", n_heads)
    kernel = cfg.size("conv_kernel_size", absent=9, limit=10**4)
    if width % 2:
        raise Refused(f"{cfg.where}hidden_size", "heads of an even width, of which a half is a convolution's", d_model)
    if kernel % 2 == 0:
        raise Refused(f"{cfg.where}conv_kernel_size", "an odd number of tokens, as many on both sides", kernel)
    return Attention(
        n_heads=n_heads,
        d_head=width // 2,
        causal=False,
        qkv_bias=True,
        out_bias=True,
        position="none",
        softmax="model",
        span=kernel,
    )
