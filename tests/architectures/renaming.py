"""Hugging Face's names of parameter tensors, read as ours.

One of their tensors may be several of ours (stacked experts), and several of theirs one of ours (norms kept a head
apart), so names are compared in bundles: see `compare`. The number of a layer may be a `{}`, as in a table of groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.architectures import (
    renaming_hearing,
    renaming_latent,
    renaming_media,
    renaming_recurrent,
    renaming_speech,
    renaming_text,
    renaming_vision,
)

NUMBER = r"(?:\d+|\{\})"
LAYER = re.compile(rf"(?:.*?\.)?(?:layers|h|blocks)\.(?P<number>{NUMBER})\.(?P<rest>.+)")

ADAPTER = (
    r"model\.layers\.\d+\.shared_transformer\.(?:self_attn|feed_forward)\."
    r"(?:linear_(?P<attention>[qkv])|(?P<linear>gate_up_proj))_adapter_list\.(?P<at>\d+)\.(?P<half>[01])\.weight"
)
"""Zamba2's updates: a list in each shared block, as long as there are layers with one."""
SANDWICH = {"gemma2", "gemma3_text", "gemma3n_text"}
NORM_AFTER_TOO = {"glm4", "kolibri1", "glm4v", "glm46v"}
NORM_AFTER = {"olmo2", "olmo3", "exaone4", "flex_olmo"}

# (families or None for all, regex of what stands after the layer's number, our names). `*` is every expert.
IN_LAYER: tuple[tuple[set[str] | None, str, tuple[str, ...]], ...] = (
    *renaming_recurrent.IN_LAYER,
    *renaming_latent.IN_LAYER,
    # norms of a layer
    (SANDWICH | NORM_AFTER, r"post_attention_layernorm\.(\w+)", (r"attention_post_norm.\1",)),
    (SANDWICH | {"vaultgemma"}, r"pre_feedforward_layernorm\.(\w+)", (r"channel_norm.\1",)),
    (SANDWICH | NORM_AFTER, r"post_feedforward_layernorm\.(\w+)", (r"channel_post_norm.\1",)),
    ({"hyperclovax"}, r"post_norm1\.(\w+)", (r"attention_post_norm.\1",)),
    ({"hyperclovax"}, r"post_norm2\.(\w+)", (r"channel_post_norm.\1",)),
    (NORM_AFTER_TOO, r"post_self_attn_layernorm\.(\w+)", (r"attention_post_norm.\1",)),
    (NORM_AFTER_TOO, r"post_mlp_layernorm\.(\w+)", (r"channel_post_norm.\1",)),
    (
        None,
        r"(?:ln_1|norm_1|input_layernorm|self_attn_layer_norm|ln_attn|norm_attn_norm\.norm_1)\.(\w+)",
        (r"attention_norm.\1",),
    ),
    (
        None,
        r"(?:ln_2|norm_2|post_attention_layernorm|final_layer_norm|ln_mlp|norm_attn_norm\.norm_2)\.(\w+)",
        (r"channel_norm.\1",),
    ),
    # attention
    (None, r"(?:.*\.)?(?:c_attn|query_key_value|Wqkv|qkv_proj)\.(\w+)", (r"attention.qkv_proj.\1",)),
    (None, r"(?:.*\.)?([qkv])_proj\.(\w+)", (r"attention.\1_proj.\2",)),
    (
        None,
        r"(?:attn|self_attn|attn\.attention|self_attention|attention|norm_attn_norm\.attn)"
        r"\.(?:o_proj|out_proj|c_proj|dense)\.(\w+)",
        (r"attention.o_proj.\1",),
    ),
    (None, rf"self_attn\.([qk])_layernorm\.norms\.{NUMBER}\.weight", (r"attention.\1_norm.weight",)),
    (None, r"(?:self_attn|attn)\.([qk])_(?:norm|layernorm|ln)\.(\w+)", (r"attention.\1_norm.\2",)),
    (None, r"self_attn\.query_layernorm\.(\w+)", (r"attention.q_norm.\1",)),
    (None, r"self_attn\.key_layernorm\.(\w+)", (r"attention.k_norm.\1",)),
    (None, r"self_attn\.sinks", ("attention.sinks",)),
    # mixtures of experts
    (
        None,
        r"(?:mlp\.gate|mlp\.router|block_sparse_moe\.router|ffn\.router\.layer|ffn\.router)\.(\w+)",
        (r"moe.router.\1",),
    ),
    (
        None,
        r"(?:mlp|block_sparse_moe)\.experts\.gate_up_proj",
        ("moe.experts.*.gate_proj.weight", "moe.experts.*.up_proj.weight"),
    ),
    (
        None,
        r"(?:mlp|block_sparse_moe)\.experts\.gate_up_proj_bias",
        ("moe.experts.*.gate_proj.bias", "moe.experts.*.up_proj.bias"),
    ),
    (None, r"(?:mlp|block_sparse_moe)\.experts\.down_proj", ("moe.experts.*.down_proj.weight",)),
    (None, r"(?:mlp|block_sparse_moe)\.experts\.down_proj_bias", ("moe.experts.*.down_proj.bias",)),
    (None, r"ffn\.experts\.mlp\.w1", ("moe.experts.*.gate_proj.weight",)),
    (None, r"ffn\.experts\.mlp\.v1", ("moe.experts.*.up_proj.weight",)),
    (None, r"ffn\.experts\.mlp\.w2", ("moe.experts.*.down_proj.weight",)),
    (None, r"mlp\.shared_expert\.(\w+)\.weight", (r"moe.shared_expert.\1.weight",)),
    (None, r"mlp\.shared_expert_gate\.weight", ("moe.shared_expert_gate.weight",)),
    # feed-forward
    (None, r"mlp\.(gate_up|gate|up|down)_proj\.(\w+)", (r"mlp.\1_proj.\2",)),
    (None, r"(?:mlp\.|ffn\.)?(?:c_fc|fc_in|fc1|dense_h_to_4h|up_proj)\.(\w+)", (r"mlp.up_proj.\1",)),
    (None, r"(?:mlp\.|ffn\.)?(?:c_proj|fc_out|fc2|dense_4h_to_h|down_proj)\.(\w+)", (r"mlp.down_proj.\1",)),
)

# (regex of a whole name outside the layers, our name)
OUTSIDE: tuple[tuple[str, str], ...] = (
    *renaming_recurrent.OUTSIDE,
    *renaming_latent.OUTSIDE,
    (r"(?:lm_head|output_projection|codec_head)\.(\w+)", r"lm_head.\1"),
    (r"thinker_to_talker_proj\.(\w+)", r"embedding.project_in.\1"),
    (r".*\.project_out\.weight", "lm_head.project_out.weight"),
    (r".*\.project_in\.weight", "embedding.project_in.weight"),
    (r".*\.word_embeddings_layernorm\.(\w+)", r"embedding.norm.\1"),
    (r".*\.(?:wpe|embed_positions)\.weight", "embedding.position.weight"),
    (r".*\.(?:wte|embed_tokens|embed_in|word_embeddings)\.weight", "embedding.token.weight"),
    (r".*\.(?:ln_f|norm_f|norm|layer_norm|final_layernorm|final_layer_norm)\.(\w+)", r"final_norm.\1"),
)


def named_parameters(model: Any) -> Iterator[tuple[str, Any]]:
    """transformers' parameters by name; updates of a shared block's matrices by the layer that has them (Zamba2), and
    without those of experts that give back what they read, of whose matrices nothing is read (LongCat-Flash)."""
    hybrid = getattr(model.config, "hybrid_layer_ids", ())
    for name, tensor in model.named_parameters():
        if found := re.fullmatch(ADAPTER, name):
            half = "AB"[int(found["half"])]
            layer, which = hybrid[int(found["at"])], found["linear"] or found["attention"] + "_proj"
            name = f"model.layers.{layer}.shared_transformer.{which}.lora_{half}.weight"
        if model.config.model_type == "funnel":
            name = _passed(name, model.config)
        if name.endswith("experts.gate_up_proj") and getattr(model.config, "zero_expert_num", None):
            tensor = tensor[: model.config.n_routed_experts]
        yield name, tensor


def _passed(name: str, config: Any) -> str:
    """The name of a Funnel Transformer's tensor with the number of the first pass of its layer in place of two."""
    found = re.fullmatch(
        r"(?:funnel\.)?(?:encoder\.blocks\.(?P<block>\d+)|decoder\.layers)\.(?P<n>\d+)\.(?P<rest>.+)", name
    )
    if found is None:
        return name
    passes = [size * times for size, times in zip(config.block_sizes, config.block_repeats, strict=True)]
    if found["block"] is None:
        return f"passed.{sum(passes) + int(found['n'])}.{found['rest']}"
    block = int(found["block"])
    return f"passed.{sum(passes[:block]) + int(found['n']) * config.block_repeats[block]}.{found['rest']}"


def rename(name: str, model_type: str) -> tuple[str, ...]:
    """Our paths of the tensor that transformers calls `name`, e.g. `layers.3.attention.q_proj.weight`.

    Errors: KeyError for a name that no rule knows.
    """
    name = renaming_latent.paired(name) if model_type == "longcat_flash" else name
    hears = renaming_hearing.HEARS.get(model_type)
    if hears and renaming_hearing.AUDIO.fullmatch(name) and (paths := renaming_text.rename(name, hears)):
        return paths
    if renaming_speech.HEARD.fullmatch(name) and (paths := renaming_text.rename(name, renaming_speech.RULES)):
        return paths
    if paths := renaming_vision.rename(name, model_type):
        return paths
    if rules := renaming_text.RULES.get(model_type) or renaming_media.RULES.get(model_type):
        if paths := renaming_text.rename(name, rules):
            return paths
    elif place := LAYER.fullmatch(name):
        for families, pattern, ours in IN_LAYER:
            applies = families is None or model_type in families
            if applies and (found := re.fullmatch(pattern, place["rest"])):
                return tuple(f"layers.{place['number']}.{found.expand(path)}" for path in ours)
    else:
        for pattern, path in OUTSIDE:
            if found := re.fullmatch(pattern, name):
                return (found.expand(path),)
    raise KeyError(f"{model_type}: no rule for {name}")


def compare(theirs: Mapping[str, int], ours: Mapping[str, int], model_type: str) -> dict[str, tuple[int, int]]:
    """Where two tables of name -> elements disagree: our path(s) -> (their elements, ours). Empty when they agree.

    An expert's number in `ours` may be any; it is read as `*`.
    """
    merged: dict[str, int] = {}
    for path, elements in ours.items():
        path = renaming_media.fold(re.sub(rf"\.experts\.{NUMBER}\.", ".experts.*.", path), model_type)
        merged[path] = merged.get(path, 0) + elements
    bundles: dict[tuple[str, ...], int] = {}
    for name, elements in theirs.items():
        paths = rename(name, model_type)
        bundles[paths] = bundles.get(paths, 0) + elements
    wrong: dict[str, tuple[int, int]] = {}
    for paths, elements in bundles.items():
        mine = sum(merged.pop(path, 0) for path in paths)
        if mine != elements:
            wrong[" + ".join(paths)] = (elements, mine)
    return wrong | {path: (0, elements) for path, elements in merged.items()}
