"""Hugging Face's names of parameter tensors in models that see, and in the language models inside them, read as ours.

Each table is a list of (regex of a whole name, our names). `N` stands for the number of a layer, or `{}`.
"""

from __future__ import annotations

import re

NUMBER = r"(?P<n>\d+|\{\})"
Rules = tuple[tuple[str, tuple[str, ...]], ...]


def _one(*rules: tuple[str, str]) -> Rules:
    return tuple((theirs, (ours,)) for theirs, ours in rules)


_ATTENTION = (r"self_attn\.([qkv])_proj(?:\.linear)?\.(\w+)", r"attention.\1_proj.\2")
_OUT = (r"(?:self_attn\.(?:o|out)_proj(?:\.linear)?|attn\.proj)\.(\w+)", r"attention.o_proj.\1")
_LAYER: Rules = _one(
    _ATTENTION,
    _OUT,
    (r"attn\.qkv\.(\w+)", r"attention.qkv_proj.\1"),
    (r"attn\.([qkv])(?:_proj)?\.(\w+)", r"attention.\1_proj.\2"),
    (r"self_attn\.([qk])_norm\.weight", r"attention.\1_norm.weight"),
    (r"(?:layer_norm1|norm1|input_layernorm)\.(\w+)", r"attention_norm.\1"),
    (r"mlp\.(?:linear_)?fc1\.(\w+)", r"mlp.up_proj.\1"),
    (r"mlp\.(?:linear_)?fc2\.(\w+)", r"mlp.down_proj.\1"),
    (r"mlp\.(gate|up|down)_proj\.(?:linear\.)?(\w+)", r"mlp.\1_proj.\2"),
)
_PIXTRAL_LAYER: Rules = _one(
    (r"attention\.([qkvo])_proj\.weight", r"attention.\1_proj.weight"),
    (r"feed_forward\.(gate|up|down)_proj\.weight", r"mlp.\1_proj.weight"),
    (r"attention_norm\.weight", "attention_norm.weight"),
    (r"ffn_norm\.weight", "channel_norm.weight"),
)
_PIXTRAL: Rules = _one(
    (r"patch_conv\.weight", "embedding.patch.weight"),
    (r"ln_pre\.weight", "embedding.norm.weight"),
    (r"multi_modal_projector\.norm\.weight", "projector.before.weight"),
    (r"multi_modal_projector\.patch_merger\.merging_layer\.weight", "projector.merging_layer.weight"),
    (r"multi_modal_projector\.(linear_[12])\.(\w+)", r"projector.\1.\2"),
)
_NORM_BEFORE = _one((r"(?:layer_norm2|norm2|post_attention_layernorm)\.(\w+)", r"channel_norm.\1"))
_NORMS_AROUND = _one(
    (r"post_attention_layernorm\.weight", "attention_post_norm.weight"),
    (r"pre_feedforward_layernorm\.weight", "channel_norm.weight"),
    (r"post_feedforward_layernorm\.weight", "channel_post_norm.weight"),
)

_PROJECTORS = _one(
    (r"merger\.ln_q\.(\w+)", r"merger.before.\1"),
    (r"merger\.mlp\.0\.(\w+)", r"merger.fc1.\1"),
    (r"merger\.mlp\.2\.(\w+)", r"merger.fc2.\1"),
    (r"merger\.norm\.(\w+)", r"merger.before.\1"),
    (r"merger_list\.N\.ln_q\.(\w+)", r"deepstack.N.norm.\2"),
    (r"merger_list\.N\.mlp\.0\.(\w+)", r"deepstack.N.fc1.\2"),
    (r"merger_list\.N\.mlp\.2\.(\w+)", r"deepstack.N.fc2.\2"),
    (r"merger\.linear_fc([12])\.(\w+)", r"merger.fc\1.\2"),
    (r"deepstack_merger_list\.N\.norm\.(\w+)", r"deepstack.N.norm.\2"),
    (r"deepstack_merger_list\.N\.linear_fc([12])\.(\w+)", r"deepstack.N.fc\2.\3"),
    (r"multi_modal_projector\.mm_input_projection_weight", "projector.linear.weight"),
    (r"multi_modal_projector\.mm_soft_emb_norm\.weight", "projector.norm.weight"),
    (r"vision_adapter\.mlp\.fc([12])\.weight", r"projector.fc\1.weight"),
    (r"multi_modal_projector\.linear_1\.weight", "projector.linear.weight"),
    (r"embed_vision\.embedding_projection\.weight", "projector.linear.weight"),
    (r"mm_projector\.pre_norm\.(\w+)", r"projector.before.\1"),
    (r"mm_projector\.in_proj\.(\w+)", r"projector.fc1.\1"),
    (r"mm_projector\.out_proj\.(\w+)", r"projector.fc2.\1"),
)
_TABLES = _one(
    (r"(?:embeddings\.patch_embedding|patch_embed\.proj|patch_embedding\.linear)\.(\w+)", r"embedding.patch.\1"),
    (r"patch_embedder\.input_proj\.weight", "embedding.patch.weight"),
    (r"embeddings\.position_embedding\.weight|pos_embed\.weight|positional_embedding_vlm", "embedding.position.weight"),
    (r"patch_embedder\.position_embedding_table", "embedding.position.weight"),
    (r"patch_embed\.pos_emb\.position_embeddings", "embedding.position.weight"),
    (r"class_embedding", "embedding.special.weight"),
    (r"layernorm_pre\.(\w+)", r"embedding.norm.\1"),
    (r"(?:post_layernorm|layernorm_post|final_layernorm)\.(\w+)", r"final_norm.\1"),
)
_INTERNVL: Rules = _one(
    (r"attention\.([qkv])_proj\.(\w+)", r"attention.\1_proj.\2"),
    (r"attention\.([qk])_norm\.weight", r"attention.\1_norm.weight"),
    (r"attention\.projection_layer\.(\w+)", r"attention.o_proj.\1"),
    (r"layernorm_before\.(\w+)", r"attention_norm.\1"),
    (r"layernorm_after\.(\w+)", r"channel_norm.\1"),
    (r"lambda_1", "attention_scale.weight"),
    (r"lambda_2", "channel_scale.weight"),
    (r"embeddings\.cls_token", "embedding.special.weight"),
    (r"embeddings\.mask_token", "embedding.mask.weight"),
    (r"embeddings\.position_embeddings", "embedding.position.weight"),
    (r"embeddings\.patch_embeddings\.projection\.(\w+)", r"embedding.patch.\1"),
    (r"layernorm\.(\w+)", r"final_norm.\1"),
    (r"multi_modal_projector\.layer_norm\.(\w+)", r"projector.norm.\1"),
    (r"multi_modal_projector\.(linear_[12])\.(\w+)", r"projector.\1.\2"),
)
_LLAVA: Rules = _PIXTRAL + _one(
    (r"embeddings\.class_embedding", "embedding.special.weight"),
    (r"(?:vision_model\.)?pre_layrnorm\.(\w+)", r"embedding.norm.\1"),
)
_GLM4V: Rules = _one(
    (r"post_conv_layernorm\.weight", "embedding.norm.weight"),
    (r"downsample\.(\w+)", r"projector.downsample.\1"),
    (r"merger\.proj\.weight", "projector.proj.weight"),
    (r"merger\.post_projection_norm\.(\w+)", r"projector.after.\1"),
    (r"merger\.(gate|up|down)_proj\.weight", r"projector.mlp.\1_proj.weight"),
)
_GLM5: Rules = _GLM4V + _one(
    (r"post_layernorm\.weight", "final_norm.weight"), (r"attn\.([qk])_norm\.weight", r"attention.\1_norm.weight")
)
_OF_ONE: dict[str, Rules] = {
    "cohere2_vision": _one((r"multi_modal_projector\.(linear_[12])\.(\w+)", r"projector.\1.\2")),
    "aya_vision": _one(
        (r"multi_modal_projector\.layernorm\.(\w+)", r"projector.norm.\1"),
        (r"multi_modal_projector\.(linear_[12])\.(\w+)", r"projector.\1.\2"),
    ),
    "llava": _PIXTRAL_LAYER + _LLAVA,
    **dict.fromkeys(("llava_next", "llava_onevision"), _LLAVA + _one((r"image_newline", "projector.newline.weight"))),
    "lfm2_vl": _one(
        (r"multi_modal_projector\.layer_norm\.(\w+)", r"projector.norm.\1"),
        (r"multi_modal_projector\.(linear_[12])\.(\w+)", r"projector.\1.\2"),
    ),
    **dict.fromkeys(("glm4v", "glm4v_moe", "glm46v"), _GLM4V),
    "glm5_next": _GLM5,
    "internvl": _INTERNVL,
    "step3p7": _INTERNVL
    + _one(
        (r"pre_layernorm\.(\w+)", r"embedding.norm.\1"),
        (r"(downsampler[12])\.(\w+)", r"projector.\1.conv.\2"),
        (r"multi_modal_projector\.(\w+)", r"projector.linear.\1"),
    ),
    "paligemma": _one((r"multi_modal_projector\.linear\.(\w+)", r"projector.linear.\1")),
    **dict.fromkeys(
        ("idefics3", "smolvlm"), _one((r"connector\.modality_projection\.proj\.weight", "projector.linear.weight"))
    ),
}
MERGED_BY_MISTRAL = {"mistral3", "mistral_large4"}
TOWERS = {
    *("gemma3", "gemma4", "llama4", "mistral3", "mistral_large4", "qwen2_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5"),
    *("kimi_k25", "qwen2_5_vl", "paligemma", "idefics3", "smolvlm", "internvl", "step3p7", "llava", "cohere2_vision"),
    *("llava_next", "llava_onevision", "lfm2_vl", "glm4v", "glm4v_moe", "glm46v", "glm5_next", "qwen3_5_moe"),
    "qwen4_exp",
    *("aya_vision", "qwen2_5_omni_thinker", "qwen3_omni_moe_thinker", "t5gemma2"),
}
TOWER = re.compile(
    r"(?:model\.)?(?:encoder\.)?(?:vision_tower|visual|vision_model)\.(?P<in>.+)"
    r"|(?:model\.)?(?:encoder\.)?(?P<beside>(?:multi_modal_projector|connector|embed_vision|mm_projector)\..+|image_newline)"
)
LAYER = re.compile(
    rf"(?:encoder\.|model\.|transformer\.|vision_model\.encoder\.)?(?:layers?|blocks)\.{NUMBER}\.(?P<rest>.+)"
)

_STACKED = (
    (r"(?:feed_forward\.)?experts\.gate_up_proj", ("moe.experts.*.gate_proj.weight", "moe.experts.*.up_proj.weight")),
    (r"(?:feed_forward\.)?experts\.down_proj", ("moe.experts.*.down_proj.weight",)),
)
_LLAMA4: Rules = (
    *_STACKED,
    *_one(
        (r"feed_forward\.(gate|up|down)_proj\.weight", r"mlp.\1_proj.weight"),
        (r"feed_forward\.router\.weight", "moe.router.weight"),
        (r"feed_forward\.shared_expert\.(\w+)\.weight", r"moe.shared_expert.\1.weight"),
    ),
)
# A dense MLP stands in `moe` where there are experts beside it.
_GEMMA4: Rules = (
    *_STACKED,
    *_NORMS_AROUND,
    (r"mlp\.(gate|up|down)_proj\.weight", (r"mlp.\1_proj.weight", r"moe.mlp.\1_proj.weight")),
    *_one(
        (r"router\.proj\.weight", "moe.router.weight"),
        (r"router\.scale", "moe.router_scale"),
        (r"router\.per_expert_scale", "moe.expert_scale"),
        (r"post_feedforward_layernorm_1\.weight", "moe.dense_post_norm.weight"),
        (r"pre_feedforward_layernorm_2\.weight", "moe.routed_norm.weight"),
        (r"post_feedforward_layernorm_2\.weight", "moe.routed_post_norm.weight"),
        (r"per_layer_input_gate\.weight", "per_layer.gate_proj.weight"),
        (r"per_layer_projection\.weight", "per_layer.up_proj.weight"),
        (r"post_per_layer_input_norm\.weight", "per_layer_post_norm.weight"),
    ),
)
_TEXT_LAYER = {
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "gemma3": _NORMS_AROUND,
    # Gemma's layers have one norm behind attention, which is the channel mixer's; Gemma 2's have three.
    "paligemma": tuple(
        (
            rf"{name}_layernorm\.weight",
            ("attention_post_norm.weight", "channel_norm.weight", "channel_post_norm.weight"),
        )
        for name in ("post_attention", "pre_feedforward", "post_feedforward")
    ),
    "gemma4": _GEMMA4,
    "gemma4_text": _GEMMA4,
}
_TEXT_LAYER_NAME = re.compile(rf"(?:.*?\.)?layers\.{NUMBER}\.(?P<rest>.+)")
_TEXT_OUTSIDE = _one(
    (r"(?:.*\.)?lm_head\.weight", "lm_head.weight"),
    (r"(?:.*\.)?embed_tokens_per_layer\.weight", "per_layer.token.weight"),
    (r"(?:.*\.)?per_layer_model_projection\.weight", "per_layer.project.weight"),
    (r"(?:.*\.)?per_layer_projection_norm\.weight", "per_layer.norm.weight"),
)


def rename(name: str, model_type: str) -> tuple[str, ...] | None:
    """Our paths of the tensor that transformers calls `name`; None where the rules common to all families hold."""
    if model_type in TOWERS and (place := TOWER.fullmatch(name)):
        return _in_tower(place["in"] or place["beside"], model_type)
    if model_type not in _TEXT_LAYER:
        return None
    if found := _first(_TEXT_OUTSIDE, name):
        return found
    if place := _TEXT_LAYER_NAME.fullmatch(name):
        found = _first(_TEXT_LAYER[model_type], place["rest"])
        return found and tuple(f"layers.{place['n']}.{path}" for path in found)
    return None


def _in_tower(name: str, model_type: str) -> tuple[str, ...]:
    """Our paths of a tower's tensor. Errors: KeyError for a name that no rule knows."""
    own = _OF_ONE.get(model_type, ())
    found = None
    if place := LAYER.fullmatch(name):
        norms = _NORMS_AROUND if model_type == "gemma4" else _NORM_BEFORE
        found = _first(_PIXTRAL_LAYER if model_type in MERGED_BY_MISTRAL else own + norms + _LAYER, place["rest"])
        found = found and tuple(f"layers.{place['n']}.{path}" for path in found)
    else:
        found = _first(_PIXTRAL if model_type in MERGED_BY_MISTRAL else own + _TABLES + _PROJECTORS, name)
    if found is None:
        raise KeyError(f"{model_type}: no rule for {name}")
    return tuple(f"vision.{path}" for path in found)


def _first(rules: Rules, name: str) -> tuple[str, ...] | None:
    for pattern, ours in rules:
        if found := re.fullmatch(pattern.replace("N", NUMBER, 1) if r".N\." in pattern else pattern, name):
            return tuple(found.expand(path.replace("N", r"\g<n>")) for path in ours)
    return None
