"""Image GPT (Chen et al. 2020, "Generative Pretraining from Pixels"): GPT-2 over colours in place of words."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm, Projection


def spec(cfg: Config) -> ModelSpec:
    """Norms without mean and bias, and a head that does not predict the last token, the start of a picture."""
    kind = cfg.architecture(
        {
            "ImageGPTForCausalImageModeling": "lm",
            "ImageGPTModel": "none",
            "ImageGPTForImageClassification": "classifier",
        },
        usual="ImageGPTForCausalImageModeling",
    )
    cfg.only("tie_word_embeddings", False, why="the head has one row less than the token table")
    cfg.only("add_cross_attention", False, why="an encoder's keys and values are not described by this config")
    d_model = cfg.size("n_embd", "hidden_size")
    n_heads = cfg.size("n_head", "num_attention_heads")
    cfg.multiple("n_embd", d_model, "n_head", n_heads)
    n_positions = cfg.size("n_positions", "max_position_embeddings", absent=32 * 32)
    vocab_size = cfg.size("vocab_size")
    if kind == "lm" and vocab_size == 1:
        raise Refused("vocab_size", "the start token and at least one other", vocab_size)
    norm = Norm(eps=cfg.number("layer_norm_epsilon", absent=1e-5))
    layer = LayerGroup(
        count=cfg.layers("n_layer", "num_hidden_layers"),
        mixer=Attention(n_heads=n_heads, qkv_bias=True, out_bias=True, fused=True, position="none"),
        channel=Mlp(
            d_ff=cfg.size("n_inner", absent=None, null=None),
            bias=True,
            activation=activation(cfg, "activation_function", absent="quick_gelu"),
        ),
        norm=norm,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=vocab_size,
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions),
        layers=(layer,),
        final_norm=norm,
        heads=(Projection(name="classifier", d_out=cfg.labels(), bias=False, per="sequence"),)
        if kind == "classifier"
        else (),
        head=Head(n_logits=vocab_size - 1) if kind == "lm" else None,
    )
