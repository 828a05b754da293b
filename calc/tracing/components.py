"""What a traced weight is reported as: told by words in its path alone, since nobody has described the model."""

from __future__ import annotations

from calc.trace.op import Component

WORDS: tuple[tuple[Component, tuple[str, ...]], ...] = (
    ("vision", ("vision", "visual", "image_encoder")),
    ("lm_head", ("lm_head", "embed_out", "cls.predictions", "output_projection")),
    ("shared_expert", ("shared_expert", "shared_mlp")),
    ("router", ("router", "mlp.gate.", "moe.gate.", "block_sparse_moe.gate.", "feed_forward.gate.")),
    ("routed_expert", ("experts",)),
    ("norm", ("norm", ".ln_", "ln_f", "layer_norm", "layernorm")),
    ("positional", ("position", "wpe", "relative_attention_bias", "rotary")),
    ("ssm", ("mamba", "ssm", "mixer.conv1d", "mixer.in_proj", "mixer.out_proj", "mixer.x_proj", "mixer.dt_proj")),
    ("attention", ("attn", "attention", "q_proj", "k_proj", "v_proj", "o_proj")),
    ("mlp", ("mlp", "ffn", "feed_forward", "fc1", "fc2", "intermediate", "output.dense", "densereludense")),
    ("embedding", ("embed", "wte", "shared.weight")),
)
"""Component -> words of which one stands in the path; the first that fits."""


def component_of(path: str) -> Component:
    """What a weight at that path, or an op of that module, is taken for; `other` where no word tells."""
    low = f"{path.lower()}."
    for component, words in WORDS:
        if any(word in low for word in words):
            return component
    return "other"
