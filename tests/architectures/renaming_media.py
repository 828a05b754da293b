"""Hugging Face's names of parameter tensors in models of pictures and sound, read as ours.

Rules are those of renaming_text: (regex of a whole name, our names), `N` for the number of a layer. A convolutional
network's layers have no number in our table of groups, so that each such network is one bundle: see `fold`.
"""

from __future__ import annotations

import re

from tests.architectures.renaming_text import Rules

FOLDS = (
    (r"(.*embedding\.)backbone\..*", r"\1backbone.*"),
    (r"(embedding|encoder\.embedding)\.conv\d+\.(.*)", r"\1.conv*.\2"),
    (r"pyramid\.lateral\d+\.(\w+)", r"pyramid.lateral*.\1"),
    (r"(mask_decoder\..*(?:mlp|iou|object|of_masks\.\d+))\.\d+\.(\w+)", r"\1.*.\2"),
    (r"box\d\.dense\.(\w+)", r"box*.dense.\1"),
)
STAGED = dict.fromkeys(
    ("swin", "swinv2", "sam2_hiera_det_model", "sam2_vision_model", "sam2"),
    ((r"layers\.(?:\d+|\{\})\.(.*)", r"layers.*.\1"), (r"merges\.\w+\.(.*)", r"merges.*.\1")),
)
STAGED["funnel"] = STAGED["swin"]
"""Families whose layers have two numbers, that of their stage and that within it: one bundle for all stages."""


def fold(path: str, model_type: str = "") -> str:
    """Our path with what a table of groups does not tell apart made one."""
    for pattern, bundle in (*STAGED.get(model_type, ()), *FOLDS):
        if found := re.fullmatch(pattern, path):
            return found.expand(bundle)
    return path


def _one(*rules: tuple[str, str]) -> Rules:
    return tuple((theirs, (ours,)) for theirs, ours in rules)


def _layers(outer: str, inner: str, names: dict[str, str]) -> Rules:
    """Rules of one stack: `outer` before its layers in their name, `inner` in ours; names within a layer."""
    return _one(
        *(
            (rf"{outer}layers\.N\.{theirs}(?P<w>\.\w+)", rf"{inner}layers.N.{ours}\g<w>")
            for theirs, ours in names.items()
        )
    )


_SELF = {
    r"(?:self_attn|attention)\.(?P<p>[qkv])_proj": r"attention.\g<p>_proj",
    r"(?:self_attn|attention)\.(?:out|o)_proj": "attention.o_proj",
}
_CROSS = {
    r"encoder_attn\.(?P<p>[qkv])_proj": r"cross_attention.\g<p>_proj",
    r"encoder_attn\.(?:out|o)_proj": "cross_attention.o_proj",
    r"encoder_attn_layer_norm": "cross_attention_norm",
}
_MLP = {r"(?:mlp\.)?fc1": "mlp.up_proj", r"(?:mlp\.)?fc2": "mlp.down_proj"}
_NORMS = {r"self_attn_layer_norm": "attention_norm", r"final_layer_norm": "channel_norm"}
_CLIP_LAYER = _SELF | _MLP | {"layer_norm1": "attention_norm", "layer_norm2": "channel_norm"}
_SEQUENCE_LAYER = _SELF | _CROSS | _MLP | _NORMS
_SPEECH_LAYER = _SELF | {
    r"feed_forward\.intermediate_dense": "mlp.up_proj",
    r"feed_forward\.output_dense": "mlp.down_proj",
    "layer_norm": "attention_norm",
    "final_layer_norm": "channel_norm",
}
_CONFORMER_LAYER = {
    r"ffn1\.intermediate_dense": "macaron.up_proj",
    r"ffn1\.output_dense": "macaron.down_proj",
    r"ffn2\.intermediate_dense": "mlp.up_proj",
    r"ffn2\.output_dense": "mlp.down_proj",
    "ffn1_layer_norm": "macaron_norm",
    "ffn2_layer_norm": "channel_norm",
    "self_attn_layer_norm": "attention_norm",
    "final_layer_norm": "out_norm",
    r"self_attn\.linear_(?P<p>[qkv])": r"attention.\g<p>_proj",
    r"self_attn\.linear_out": "attention.o_proj",
    r"self_attn\.linear_pos": "attention.pos_proj",
    r"conv_module\.layer_norm": "convolution_norm",
    r"conv_module\.pointwise_conv1": "convolution.pointwise_in",
    r"conv_module\.depthwise_conv": "convolution.depthwise",
    r"conv_module\.batch_norm": "convolution.batch_norm",
    r"conv_module\.pointwise_conv2": "convolution.pointwise_out",
}

_DINOV2_LAYER = {
    "norm1": "attention_norm",
    "norm2": "channel_norm",
    **_SELF,
    **_MLP,
    r"mlp\.(?P<p>gate|up|down)_proj": r"mlp.\g<p>_proj",
}

_PARAKEET_LAYER = {
    r"feed_forward1\.linear1": "macaron.up_proj",
    r"feed_forward1\.linear2": "macaron.down_proj",
    r"feed_forward2\.linear1": "mlp.up_proj",
    r"feed_forward2\.linear2": "mlp.down_proj",
    "norm_feed_forward1": "macaron_norm",
    "norm_feed_forward2": "channel_norm",
    "norm_self_att": "attention_norm",
    "norm_conv": "convolution_norm",
    "norm_out": "out_norm",
    r"self_attn\.(?P<p>[qkvo]_proj)": r"attention.\g<p>",
    r"self_attn\.relative_k_proj": "attention.pos_proj",
    r"conv\.pointwise_conv1": "convolution.pointwise_in",
    r"conv\.depthwise_conv": "convolution.depthwise",
    r"conv\.norm": "convolution.batch_norm",
    r"conv\.pointwise_conv2": "convolution.pointwise_out",
}
_VIT_NORMS = {"layernorm_before": "attention_norm", "layernorm_after": "channel_norm"}
VIT = _layers(r"(?:\w+\.)?", "", _SELF | _MLP | _VIT_NORMS) + _one(
    (r"classifier\.(?:dense\.)?(?P<w>\w+)", r"classifier.dense.\g<w>"),
    (r"classifier\.layernorm\.(?P<w>\w+)", r"classifier.before.\g<w>"),
    (r"(?:\w+\.)?embeddings\.(?:cls|distillation)_token", "embedding.special.weight"),
    (r"(?:\w+\.)?embeddings\.position_embeddings", "embedding.position.weight"),
    (r"(?:\w+\.)?embeddings\.patch_embeddings\.projection\.(?P<w>\w+)", r"embedding.patch.\g<w>"),
    (r"(?:\w+\.)?layernorm\.(?P<w>\w+)", r"final_norm.\g<w>"),
    (r"(?:\w+\.)?pooler\.dense\.(?P<w>\w+)", r"pooler.dense.\g<w>"),
    (r"cls_classifier\.(?P<w>\w+)", r"class_classifier.dense.\g<w>"),
    (r"distillation_classifier\.(?P<w>\w+)", r"distillation_classifier.dense.\g<w>"),
)
VIT_MAE = (
    _layers(r"vit\.", "encoder.", _SELF | _MLP | _VIT_NORMS)
    + _layers(r"decoder\.decoder_", "", _SELF | _MLP | _VIT_NORMS)
    + _one(
        (r"decoder\.decoder_embed\.(?P<w>\w+)", r"encoder.decoder_embed.dense.\g<w>"),
        (r"decoder\.mask_token", "embedding.mask.weight"),
        (r"decoder\.decoder_pos_embed", "embedding.position.weight"),
        (r"decoder\.decoder_norm\.(?P<w>\w+)", r"final_norm.\g<w>"),
        (r"decoder\.decoder_pred\.(?P<w>\w+)", r"pixels.dense.\g<w>"),
        (r"vit\.embeddings\.cls_token", "encoder.embedding.special.weight"),
        (r"vit\.embeddings\.position_embeddings", "encoder.embedding.position.weight"),
        (r"vit\.embeddings\.patch_embeddings\.projection\.(?P<w>\w+)", r"encoder.embedding.patch.\g<w>"),
        (r"vit\.layernorm\.(?P<w>\w+)", r"encoder.final_norm.\g<w>"),
    )
    + VIT
)
DINOV2 = (
    _one(
        (r"(?:.*\.)?layer\.N\.layer_scale1\.lambda1", "layers.N.attention_scale.weight"),
        (r"(?:.*\.)?layer\.N\.layer_scale2\.lambda1", "layers.N.channel_scale.weight"),
        (r"(?:.*\.)?embeddings\.mask_token", "embedding.mask.weight"),
        *(
            (rf"(?:.*\.)?layer\.N\.{theirs}\.(?P<w>\w+)", rf"layers.N.{ours}.\g<w>")
            for theirs, ours in _DINOV2_LAYER.items()
        ),
    )
    + VIT
)
CLIP = (
    _layers(r"text_model\.encoder\.", "", _CLIP_LAYER)
    + _layers(r"vision_model\.encoder\.", "vision.", _CLIP_LAYER)
    + _one(
        (r"text_model\.embeddings\.token_embedding\.weight", "embedding.token.weight"),
        (r"text_model\.embeddings\.position_embedding\.weight", "embedding.position.weight"),
        (r"text_model\.final_layer_norm\.(?P<w>\w+)", r"final_norm.\g<w>"),
        (r"text_projection\.weight", "text_projection.dense.weight"),
        (r"vision_model\.embeddings\.class_embedding", "vision.embedding.special.weight"),
        (r"vision_model\.embeddings\.patch_embedding\.weight", "vision.embedding.patch.weight"),
        (r"vision_model\.embeddings\.position_embedding\.weight", "vision.embedding.position.weight"),
        (r"vision_model\.pre_layrnorm\.(?P<w>\w+)", r"vision.embedding.norm.\g<w>"),
        (r"vision_model\.post_layernorm\.(?P<w>\w+)", r"vision.final_norm.\g<w>"),
        (r"visual_projection\.weight", "vision.visual_projection.dense.weight"),
        (r"logit_scale", "contrast.logit_scale"),
    )
)
_OF_TEXT, _OF_VISION = r"(?:text_model\.)?", r"(?:vision_model\.)?"
CLIP_TEXT = _layers(_OF_TEXT + r"encoder\.", "", _CLIP_LAYER) + _one(
    (_OF_TEXT + r"embeddings\.(?P<t>token|position)_embedding\.weight", r"embedding.\g<t>.weight"),
    (_OF_TEXT + r"final_layer_norm\.(?P<w>\w+)", r"final_norm.\g<w>"),
    (r"text_projection\.weight", "text_projection.dense.weight"),
)
CLIP_VISION = _layers(_OF_VISION + r"encoder\.", "", _CLIP_LAYER) + _one(
    (_OF_VISION + r"embeddings\.class_embedding", "embedding.special.weight"),
    (_OF_VISION + r"embeddings\.(?P<t>patch|position)_embedding\.(?P<w>\w+)", r"embedding.\g<t>.\g<w>"),
    (_OF_VISION + r"pre_layrnorm\.(?P<w>\w+)", r"embedding.norm.\g<w>"),
    (_OF_VISION + r"post_layernorm\.(?P<w>\w+)", r"final_norm.\g<w>"),
    (r"visual_projection\.weight", "visual_projection.dense.weight"),
)
_POOL = r"vision_model\.head\."
SIGLIP = (
    CLIP
    + _one(
        (r"text_model\.head\.(?P<w>\w+)", r"text_projection.dense.\g<w>"),
        (r"vision_model\.embeddings\.patch_embedding\.bias", "vision.embedding.patch.bias"),
        (_POOL + "probe", "vision.pool.probe.weight"),
        (_POOL + r"attention\.out_proj\.(?P<w>\w+)", r"vision.pool.attention.o_proj.\g<w>"),
        (_POOL + r"layernorm\.(?P<w>\w+)", r"vision.pool.norm.\g<w>"),
        (_POOL + r"mlp\.fc1\.(?P<w>\w+)", r"vision.pool.mlp.up_proj.\g<w>"),
        (_POOL + r"mlp\.fc2\.(?P<w>\w+)", r"vision.pool.mlp.down_proj.\g<w>"),
        ("logit_bias", "contrast.logit_bias"),
    )
    + ((_POOL + r"attention\.in_proj_(?P<w>\w+)", tuple(rf"vision.pool.attention.{m}_proj.\g<w>" for m in "qkv")),)
)
SIGLIP_TEXT = CLIP_TEXT + _one((r"head\.(?P<w>\w+)", r"text_projection.dense.\g<w>"))
SIGLIP_VISION = CLIP_VISION + tuple(
    (theirs.removeprefix(r"vision_model\."), tuple(path.removeprefix("vision.") for path in ours))
    for theirs, ours in SIGLIP[len(CLIP) :]
)
PIXTRAL = _layers(
    r"transformer\.",
    "",
    {
        r"attention\.(?P<p>[qkvo])_proj": r"attention.\g<p>_proj",
        r"feed_forward\.(?P<p>gate|up|down)_proj": r"mlp.\g<p>_proj",
        "attention_norm": "attention_norm",
        "ffn_norm": "channel_norm",
    },
) + _one((r"patch_conv\.weight", "embedding.patch.weight"), (r"ln_pre\.weight", "embedding.norm.weight"))
WHISPER = (
    _layers(r"model\.encoder\.", "encoder.", _SEQUENCE_LAYER)
    + _layers(r"model\.decoder\.", "", _SEQUENCE_LAYER)
    + _one(
        (r"model\.encoder\.conv\d\.(?P<w>\w+)", r"encoder.embedding.conv*.conv.\g<w>"),
        (r"model\.encoder\.embed_positions\.weight", "encoder.embedding.position.weight"),
        (r"model\.encoder\.layer_norm\.(?P<w>\w+)", r"encoder.final_norm.\g<w>"),
        (r"model\.decoder\.embed_tokens\.weight", "embedding.token.weight"),
        (r"model\.decoder\.embed_positions\.weight", "embedding.position.weight"),
        (r"model\.decoder\.layer_norm\.(?P<w>\w+)", r"final_norm.\g<w>"),
    )
)
SPEECH_TO_TEXT = WHISPER + _one(
    (r"model\.encoder\.conv\.conv_layers\.N\.(?P<w>\w+)", r"encoder.embedding.conv*.conv.\g<w>"),
    (r"lm_head\.weight", "lm_head.weight"),
)
DETR = (
    _layers(r"(?:model\.)?encoder\.", "encoder.", _SEQUENCE_LAYER)
    + _layers(r"(?:model\.)?decoder\.", "", _SEQUENCE_LAYER)
    + _one(
        (r"(?:model\.)?backbone\..*", "encoder.embedding.backbone.*"),
        (r"(?:model\.)?input_projection\.(?P<w>\w+)", r"encoder.embedding.project_in.\g<w>"),
        (r"(?:model\.)?position_embedding\.(?P<p>row|column)_embeddings\.weight", r"encoder.embedding.\g<p>.weight"),
        (r"(?:model\.)?query_position_embeddings\.weight", "embedding.query.weight"),
        (r"(?:model\.)?decoder\.layernorm\.(?P<w>\w+)", r"final_norm.\g<w>"),
        (r"class_labels_classifier\.(?P<w>\w+)", r"class_head.dense.\g<w>"),
        (r"bbox_predictor\.layers\.(?:\d+|\{\})\.(?P<w>\w+)", r"box*.dense.\g<w>"),
    )
)
TROCR = (
    _layers(r"encoder\.", "encoder.", _SELF | _MLP | _VIT_NORMS)
    + _layers(r"decoder\.model\.decoder\.", "", _SEQUENCE_LAYER)
    + _one(
        (r"encoder\.embeddings\.(?:cls|distillation)_token", "encoder.embedding.special.weight"),
        (r"encoder\.embeddings\.position_embeddings", "encoder.embedding.position.weight"),
        (r"encoder\.embeddings\.patch_embeddings\.projection\.(?P<w>\w+)", r"encoder.embedding.patch.\g<w>"),
        (r"encoder\.layernorm\.(?P<w>\w+)", r"encoder.final_norm.\g<w>"),
        (r"encoder\.pooler\.dense\.(?P<w>\w+)", r"encoder.pooler.dense.\g<w>"),
        (r"decoder\.model\.decoder\.embed_tokens\.weight", "embedding.token.weight"),
        (r"decoder\.model\.decoder\.embed_positions\.weight", "embedding.position.weight"),
        (r"decoder\.model\.decoder\.layernorm_embedding\.(?P<w>\w+)", r"embedding.norm.\g<w>"),
        (r"decoder\.output_projection\.weight", "lm_head.weight"),
    )
)
_HEARD_LAYER = {
    **{
        rf"ffw_layer_{theirs}\.{step}": ours
        for theirs, block, norm in (("start", "macaron", "macaron"), ("end", "mlp", "channel"))
        for step, ours in {
            "pre_layer_norm": f"{norm}_norm",
            "post_layer_norm": f"{norm}_post_norm",
            "ffw_layer_1": f"{block}.up_proj",
            "ffw_layer_2": f"{block}.down_proj",
        }.items()
    },
    r"attention\.pre_attn_norm": "attention_norm",
    r"attention\.post_norm": "attention_post_norm",
    r"attention\.attn\.(?P<p>[qkv])_proj": r"attention.\g<p>_proj",
    r"attention\.attn\.relative_position_embedding\.pos_proj": "attention.pos_proj",
    r"attention\.post": "attention.o_proj",
    r"lconv1d\.pre_layer_norm": "convolution_norm",
    r"lconv1d\.linear_start": "convolution.pointwise_in",
    r"lconv1d\.depthwise_conv1d": "convolution.depthwise",
    r"lconv1d\.conv_norm": "convolution.layer_norm",
    r"lconv1d\.linear_end": "convolution.pointwise_out",
    "norm": "out_norm",
}
GEMMA3N_AUDIO = _one(
    *(
        (rf"conformer\.(?P<i>\d+)\.{theirs}\.weight", rf"layers.\g<i>.{ours}.weight")
        for theirs, ours in _HEARD_LAYER.items()
    ),
    (r"conformer\.(?P<i>\d+)\.attention\.attn\.per_dim_scale", r"layers.\g<i>.attention.per_dim_scale"),
    *(
        (rf"subsample_conv_projection\.conv_{i}\.(?P<p>conv|norm)\.weight", rf"embedding.{ours}.\g<p>.weight")
        for i, ours in enumerate(("first", "second"))
    ),
    (r"subsample_conv_projection\.input_proj_linear\.weight", "embedding.project_in.weight"),
)
_TILED_LAYER = _SELF | _MLP | {"input_layernorm": "attention_norm", "post_attention_layernorm": "channel_norm"}
_CROSSED_LAYER = _SELF | {
    "post_attention_layernorm": "channel_norm",
    r"mlp\.(?P<p>gate|up|down)_proj": r"mlp.\g<p>_proj",
    r"cross_attn\.(?P<p>[qkvo])_(?P<q>proj|norm)": r"cross_attention.\g<p>_\g<q>",
}
FIRST_STAGE, CROSSED = 4, "13"
"""Of all small configs of Llama 3.2 Vision, layers of the first stage, from which those of the second are counted on,
and numbers of the layers with cross-attention."""
_TEXT = r"(?:model\.)?language_model\."
_SECOND = r"(?:model\.)?vision_model\.global_transformer\.layers\."
MLLAMA = (
    _layers(r"(?:model\.)?vision_model\.transformer\.", "encoder.", _TILED_LAYER)
    + _one(
        *(
            (rf"{_SECOND}{i}\.{theirs}(?P<w>\.\w+)", rf"encoder.layers.{FIRST_STAGE + i}.{ours}\g<w>")
            for i in range(2)
            for theirs, ours in _TILED_LAYER.items()
        ),
        *(
            (rf"{_SECOND}{i}\.gate_{theirs}", f"encoder.layers.{FIRST_STAGE + i}.{ours}_gate.weight")
            for i in range(2)
            for theirs, ours in {"attn": "attention", "ffn": "channel"}.items()
        ),
        (
            rf"{_TEXT}layers\.(?P<n>[{CROSSED}])\.input_layernorm\.weight",
            "layers.N.cross_attention_norm.weight",
        ),
        (rf"{_TEXT}layers\.N\.input_layernorm\.weight", "layers.N.attention_norm.weight"),
        (rf"{_TEXT}layers\.N\.cross_attn_attn_gate", "layers.N.cross_attention_gate.weight"),
        (rf"{_TEXT}layers\.N\.cross_attn_mlp_gate", "layers.N.channel_gate.weight"),
    )
    + _layers(_TEXT, "", _CROSSED_LAYER)
    + _one(
        (rf"{_TEXT}embed_tokens\.weight", "embedding.token.weight"),
        (rf"{_TEXT}norm\.weight", "final_norm.weight"),
        (r"lm_head\.weight", "lm_head.weight"),
        (r"(?:model\.)?multi_modal_projector\.(?P<w>\w+)", r"encoder.projector.linear.\g<w>"),
        (r"(?:model\.)?vision_model\.patch_embedding\.weight", "encoder.embedding.patch.weight"),
        (r"(?:model\.)?vision_model\.class_embedding", "encoder.embedding.special.weight"),
        (r"(?:model\.)?vision_model\.layernorm_pre\.(?P<w>\w+)", r"encoder.embedding.norm.\g<w>"),
        (r"(?:model\.)?vision_model\.layernorm_post\.(?P<w>\w+)", r"encoder.between.norm.\g<w>"),
        (r"(?:model\.)?vision_model\.gated_positional_embedding\.gate", "encoder.embedding.place_gate.weight"),
        (r"(?:model\.)?vision_model\.gated_positional_embedding\.embedding", "encoder.embedding.position.weight"),
        (
            r"(?:model\.)?vision_model\.gated_positional_embedding\.tile_embedding\.weight",
            "encoder.embedding.place.weight",
        ),
        *(
            rule
            for theirs, ours in {"pre": "embedding", "post": "between"}.items()
            for rule in (
                (rf"(?:model\.)?vision_model\.{theirs}_tile_.*\.weight", f"encoder.{ours}.tile.weight"),
                (rf"(?:model\.)?vision_model\.{theirs}_tile_.*\.gate", f"encoder.{ours}.tile_gate.weight"),
            )
        ),
    )
)
_TOWER = r"(?:model\.)?vision_model\."
MLLAMA_VISION = tuple(
    (theirs.removeprefix(_TOWER), tuple(path.removeprefix("encoder.") for path in ours))
    for theirs, ours in MLLAMA
    if theirs.startswith(_TOWER)
)
_SPEECH = _one(
    (r"(?:\w+\.)?masked_spec_embed", "embedding.mask.weight"),
    (r"(?:\w+\.)?feature_extractor\.conv_layers\.N\.conv\.(?P<w>\w+)", r"embedding.conv*.conv.\g<w>"),
    (r"(?:\w+\.)?feature_extractor\.conv_layers\.N\.layer_norm\.(?P<w>\w+)", r"embedding.conv*.norm.\g<w>"),
    (r"(?:\w+\.)?feature_projection\.layer_norm\.(?P<w>\w+)", r"embedding.before.\g<w>"),
    (r"(?:\w+\.)?feature_projection\.projection\.(?P<w>\w+)", r"embedding.project_in.\g<w>"),
    (r"(?:\w+\.)?encoder\.pos_conv_embed\.conv\.bias", "embedding.position_convolution.conv.bias"),
    (r".*pos_conv_embed\.conv\.parametrizations\.weight\.original0", "embedding.position_convolution.scale"),
    (r".*pos_conv_embed\.conv\.parametrizations\.weight\.original1", "embedding.position_convolution.conv.weight"),
    (r"quantizer\.codevectors", "embedding.quantizer.codevectors"),
    (r"quantizer\.weight_proj\.(?P<w>\w+)", r"embedding.quantizer.scores.\g<w>"),
    (r"project_q\.(?P<w>\w+)", r"embedding.quantizer.project.\g<w>"),
    (r"project_hid\.(?P<w>\w+)", r"project_hid.dense.\g<w>"),
    (r"lm_head\.(?P<w>\w+)", r"ctc.dense.\g<w>"),
    (r"(?P<p>projector|classifier)\.(?P<w>\w+)", r"\g<p>.dense.\g<w>"),
)
_ENCODER_NORM = r"(?:\w+\.)?encoder\.layer_norm\.(?P<w>\w+)"
WAV2VEC2 = _layers(r"(?:\w+\.)?encoder\.", "", _SPEECH_LAYER) + _SPEECH + _one((_ENCODER_NORM, r"embedding.norm.\g<w>"))
WAV2VEC2_STABLE = WAV2VEC2[:-1] + _one((_ENCODER_NORM, r"final_norm.\g<w>"))
_GATED = _one(
    (r"(?:\w+\.)?encoder\.layers\.N\.attention\.rel_attn_embed\.weight", "relative_bias.weight"),
    (r"(?:\w+\.)?encoder\.layers\.N\.attention\.gru_rel_pos_const", "layers.N.attention.gate_scale"),
    (r"(?:\w+\.)?encoder\.layers\.N\.attention\.gru_rel_pos_linear\.(?P<w>\w+)", r"layers.N.attention.gate_proj.\g<w>"),
)
CONFORMER = (
    _layers(r"(?:\w+\.)?encoder\.", "", _CONFORMER_LAYER)
    + _SPEECH
    + _one(
        (_ENCODER_NORM, r"final_norm.\g<w>"),
        (r"(?:\w+\.)?encoder\.layers\.N\.self_attn\.(?P<p>pos_bias_[uv])", r"layers.N.attention.\g<p>"),
    )
)

_HALVES = {"residual_layer_norm": "residual_norm", "self_attn_layer_norm": "attention_norm"}
_HALVES |= {"residual_conv": "residual_conv", "self_attn_conv": "attention_conv"}
_HALVES |= {r"self_attn\.linear_(?P<p>[qkv])": r"attention.\g<p>_proj", r"self_attn\.linear_out": "attention.o_proj"}
_FEED_FORWARD = {"intermediate_dense": "mlp.up_proj", "output_dense": "mlp.down_proj"}


def adapter(outer: str, inner: str, layers: int) -> Rules:
    """What stands behind that many layers of a Conformer: half a feed-forward block, and two layers of an adapter."""
    rules = [(rf"{outer}intermediate_ffn\.{t}", f"{inner}layers.{layers}.{o}") for t, o in _FEED_FORWARD.items()]
    for i in range(2):
        theirs, layer = rf"{outer}adapter\.layers\.{i}\.", f"{inner}layers.{layers + 1 + i}"
        rules += [(f"{theirs}{t}", f"{inner}shortened.adapter{i + 1}.{o}") for t, o in _HALVES.items()]
        rules += [(rf"{theirs}ffn\.{t}", f"{layer}.{o}") for t, o in _FEED_FORWARD.items()]
        rules.append((f"{theirs}ffn_layer_norm", f"{layer}.channel_norm"))
    return _one(*((rf"{theirs}\.(?P<w>\w+)", rf"{ours}.\g<w>") for theirs, ours in rules))


_ADAPTER = adapter(r"(?:\w+\.)?", "", 2)
PARAKEET = _layers(r"(?:encoder\.)?", "", _PARAKEET_LAYER) + _one(
    (r"(?:encoder\.)?layers\.N\.self_attn\.bias_(?P<p>[uv])", r"layers.N.attention.pos_bias_\g<p>"),
    (r"(?:encoder\.)?subsampling\.layers\.0\.(?P<w>\w+)", r"embedding.first.conv.\g<w>"),
    *(
        (rf"(?:encoder\.)?subsampling\.layers\.{at}\.(?P<w>\w+)", rf"embedding.{ours}.conv.\g<w>")
        for at, ours in ((2, "depthwise1"), (3, "pointwise1"), (5, "depthwise2"), (6, "pointwise2"))
    ),
    (r"(?:encoder\.)?subsampling\.linear\.(?P<w>\w+)", r"embedding.project_in.\g<w>"),
    (r"ctc_head\.(?P<w>\w+)", r"ctc.dense.\g<w>"),
)

_STAGE = r"(?:swin\.)?encoder\.layers\.\d+\."
SWIN = _one(
    *(
        (rf"{_STAGE}blocks\.\d+\.{theirs}(?P<w>\.\w+)", rf"layers.*.{ours}\g<w>")
        for theirs, ours in (_SELF | _MLP | _VIT_NORMS).items()
    ),
    (rf"{_STAGE}blocks\.\d+\.attention\.relative_position_bias\.\w+", "layers.*.attention.relative_bias.weight"),
    (rf"{_STAGE}downsample\.reduction\.(?P<w>\w+)", r"merges.*.dense.\g<w>"),
    (rf"{_STAGE}downsample\.norm\.(?P<w>\w+)", r"merges.*.norm.\g<w>"),
    (r"(?:\w+\.)?embeddings\.norm\.(?P<w>\w+)", r"embedding.norm.\g<w>"),
)

_SEEN = r"(?:vision_encoder\.)?(?:backbone\.)?"
HIERA = (
    *_one(
        (rf"{_SEEN}patch_embed\.projection\.(?P<w>\w+)", r"embedding.patch.\g<w>"),
        (r"(?:vision_encoder\.)?neck\.convs\.\d+\.(?P<w>\w+)", r"pyramid.lateral*.\g<w>"),
        (rf"{_SEEN}pos_embed", "embedding.position.weight"),
        (rf"{_SEEN}pos_embed_window", "embedding.window.weight"),
        (rf"{_SEEN}blocks\.\d+\.layer_norm2\.(?P<w>\w+)", r"layers.*.channel_norm.\g<w>"),
        (rf"{_SEEN}blocks\.\d+\.mlp\.proj_in\.(?P<w>\w+)", r"layers.*.mlp.up_proj.\g<w>"),
        (
            rf"{_SEEN}blocks\.\d+\.mlp\.proj_out\.(?P<w>\w+)",
            r"layers.*.mlp.down_proj.\g<w>",
        ),
        (rf"{_SEEN}blocks\.\d+\.proj\.(?P<w>\w+)", r"merges.*.proj.\g<w>"),
    ),
    *(
        (
            rf"{_SEEN}blocks\.\d+\.{theirs}\.(?P<w>\w+)",
            (rf"layers.*.{ours}.\g<w>", rf"merges.*.{between}.\g<w>"),
        )
        for theirs, ours, between in (
            ("layer_norm1", "attention_norm", "norm"),
            (r"attn\.qkv", "attention.qkv_proj", "qkv_proj"),
            (r"attn\.proj", "attention.o_proj", "o_proj"),
        )
    ),
)
_DENSE = r"\.(?:proj_in|layers\.\d+|proj_out|lin\d)\.(?P<w>\w+)"
_TWO_WAY = r"mask_decoder\.transformer\."
SEGMENTING = _one(
    *(
        (rf"{_TWO_WAY}layers\.(?P<i>\d+)\.{theirs}(?P<w>\.\w+)", rf"mask_decoder.layers.\g<i>.{ours}\g<w>")
        for theirs, ours in (
            (r"self_attn\.(?P<p>[qkvo])(?:ut)?_proj", r"attention.\g<p>_proj"),
            (r"cross_attn_token_to_image\.(?P<p>[qkvo])(?:ut)?_proj", r"to_image.\g<p>_proj"),
            (r"cross_attn_image_to_token\.(?P<p>[qkvo])(?:ut)?_proj", r"to_tokens.\g<p>_proj"),
            (r"layer_norm(?P<n>\d)", r"norm\g<n>"),
        )
    ),
    (
        rf"{_TWO_WAY}final_attn_token_to_image\.(?P<p>[qkvo])(?:ut)?_proj\.(?P<w>\w+)",
        r"mask_decoder.to_image.\g<p>_proj.\g<w>",
    ),
    (rf"{_TWO_WAY}layer_norm_final_attn\.(?P<w>\w+)", r"mask_decoder.norm.\g<w>"),
    (rf"{_TWO_WAY}layers\.(?P<i>\d+)\.mlp{_DENSE}", r"mask_decoder.layers.\g<i>.mlp.*.\g<w>"),
    (rf"mask_decoder\.output_hypernetworks_mlps\.(?P<i>\d+){_DENSE}", r"mask_decoder.of_masks.\g<i>.*.\g<w>"),
    (rf"mask_decoder\.iou_prediction_head{_DENSE}", r"mask_decoder.iou.*.\g<w>"),
    (rf"mask_decoder\.pred_obj_score_head{_DENSE}", r"mask_decoder.object.*.\g<w>"),
    (r"mask_decoder\.(?P<t>iou|mask)_tokens?\.weight", r"mask_decoder.\g<t>_token.weight"),
    (r"mask_decoder\.obj_score_token\.weight", "mask_decoder.object_token.weight"),
    (r"mask_decoder\.upscale_conv(?P<n>\d)\.(?P<w>\w+)", r"mask_decoder.upscale\g<n>.\g<w>"),
    (r"mask_decoder\.upscale_layer_norm\.(?P<w>\w+)", r"mask_decoder.upscale_norm.\g<w>"),
    (r"mask_decoder\.conv_s0\.(?P<w>\w+)", r"mask_decoder.finest.\g<w>"),
    (r"mask_decoder\.conv_s1\.(?P<w>\w+)", r"mask_decoder.fine.\g<w>"),
    (r"prompt_encoder\.mask_embed\.(?:layer_)?(?P<n>\w+)\.(?P<w>\w+)", r"mask_decoder.mask.\g<n>.\g<w>"),
    (r"prompt_encoder\.no_mask_embed\.weight", "mask_decoder.no_mask.weight"),
    (r"prompt_encoder\.not_a_point_embed\.weight", "mask_decoder.points.none.weight"),
    (r"prompt_encoder\.point_embed\.weight", "mask_decoder.points.kind.weight"),
    (r"prompt_encoder\.point_embed\.(?P<i>\d+)\.weight", r"mask_decoder.points.kind.\g<i>.weight"),
    (r"shared_image_embedding\.positional_embedding", "mask_decoder.directions"),
    (r"no_memory_embedding", "mask_decoder.no_memory.weight"),
)
SAM = _layers(
    r"vision_encoder\.",
    "",
    {
        "layer_norm1": "attention_norm",
        "layer_norm2": "channel_norm",
        r"attn\.qkv": "attention.qkv_proj",
        r"attn\.proj": "attention.o_proj",
        r"mlp\.lin1": "mlp.up_proj",
        r"mlp\.lin2": "mlp.down_proj",
    },
) + _one(
    (r"vision_encoder\.layers\.N\.attn\.rel_pos_h", "layers.N.attention.row_distance.weight"),
    (r"vision_encoder\.layers\.N\.attn\.rel_pos_w", "layers.N.attention.column_distance.weight"),
    (r"vision_encoder\.neck\.(?:layer_)?(?P<n>\w+)\.(?P<w>\w+)", r"neck.\g<n>.\g<w>"),
    (r"vision_encoder\.patch_embed\.projection\.(?P<w>\w+)", r"embedding.patch.\g<w>"),
    (r"vision_encoder\.pos_embed", "embedding.position.weight"),
)
_STAGE2 = r"(?:swinv2\.)?encoder\.layers\.\d+\."
SWINV2 = _one(
    *(
        (rf"{_STAGE2}blocks\.\d+\.{theirs}", rf"layers.*.{ours}")
        for theirs, ours in (
            (r"attention\.self\.query\.(?P<w>\w+)", r"attention.q_proj.\g<w>"),
            (r"attention\.self\.key\.(?P<w>\w+)", r"attention.k_proj.\g<w>"),
            (r"attention\.self\.value\.(?P<w>\w+)", r"attention.v_proj.\g<w>"),
            (r"attention\.self\.logit_scale", "attention.logit_scale.weight"),
            (r"attention\.self\.continuous_position_bias_mlp\.0\.(?P<w>\w+)", r"attention.relative_bias1.\g<w>"),
            (r"attention\.self\.continuous_position_bias_mlp\.2\.(?P<w>\w+)", r"attention.relative_bias2.\g<w>"),
            (r"attention\.output\.dense\.(?P<w>\w+)", r"attention.o_proj.\g<w>"),
            (r"intermediate\.dense\.(?P<w>\w+)", r"mlp.up_proj.\g<w>"),
            (r"output\.dense\.(?P<w>\w+)", r"mlp.down_proj.\g<w>"),
            (r"layernorm_before\.(?P<w>\w+)", r"attention_post_norm.\g<w>"),
            (r"layernorm_after\.(?P<w>\w+)", r"channel_post_norm.\g<w>"),
        )
    ),
    (rf"{_STAGE2}downsample\.reduction\.(?P<w>\w+)", r"merges.*.dense.\g<w>"),
    (rf"{_STAGE2}downsample\.norm\.(?P<w>\w+)", r"merges.*.norm.\g<w>"),
)

_SERIES_LAYER = _SELF | {r"ff\.0": "mlp.up_proj", r"ff\.3": "mlp.down_proj"}
_SERIES_LAYER |= {
    r"norm_sublayer1(?:\.batchnorm)?": "attention_norm",
    r"norm_sublayer3(?:\.batchnorm)?": "channel_norm",
}
PATCHTST = _layers(r"(?:model\.)?encoder\.", "", _SERIES_LAYER) + _one(
    (r"(?:model\.)?encoder\.embedder\.input_embedding\.(?P<w>\w+)", r"embedding.patch.\g<w>"),
    (r"(?:model\.)?encoder\.positional_encoder\.position_enc", "embedding.position.weight"),
    (r"(?:model\.)?encoder\.positional_encoder\.cls_token", "embedding.special.weight"),
    (r"head\.(?:projection|linear)\.(?P<w>\w+)", r"head.dense.\g<w>"),
)

RULES: dict[str, Rules] = {
    "swin": SWIN + VIT,
    "swinv2": SWINV2 + SWIN + VIT,
    **dict.fromkeys(("sam2_hiera_det_model", "sam2_vision_model"), HIERA),
    "sam2": HIERA + SEGMENTING,
    "sam": SAM + SEGMENTING,
    "sam_vision_model": SAM,
    "vit": VIT,
    "deit": VIT,
    "vit_msn": VIT,
    "ijepa": VIT,
    "vit_mae": VIT_MAE,
    "dinov2": DINOV2,
    "dinov3_vit": _one(
        (r"embeddings\.register_tokens", "embedding.special.weight"),
        (r"embeddings\.patch_embeddings\.(?P<w>\w+)", r"embedding.patch.\g<w>"),
        (r"norm\.(?P<w>\w+)", r"final_norm.\g<w>"),
    )
    + DINOV2,
    "dinov2_with_registers": _one((r"(?:.*\.)?embeddings\.register_tokens", "embedding.registers.weight")) + DINOV2,
    "clip_text_model": CLIP_TEXT,
    "clip_vision_model": CLIP_VISION,
    **dict.fromkeys(("hubert", "unispeech", "unispeech-sat"), WAV2VEC2),
    **dict.fromkeys(("hubert-stable", "unispeech-stable", "unispeech-sat-stable"), WAV2VEC2_STABLE),
    "wavlm": _GATED + WAV2VEC2,
    "wavlm-stable": _GATED + WAV2VEC2_STABLE,
    "patchtst": PATCHTST,
    "audio-spectrogram-transformer": VIT,
    "clip": CLIP,
    **dict.fromkeys(("siglip", "siglip2"), SIGLIP),
    **dict.fromkeys(("siglip_text_model", "siglip2_text_model"), SIGLIP_TEXT),
    **dict.fromkeys(("siglip_vision_model", "siglip2_vision_model"), SIGLIP_VISION),
    "pixtral": PIXTRAL,
    "vision-encoder-decoder": TROCR,
    "mllama": MLLAMA,
    "mllama_vision_model": MLLAMA_VISION,
    "whisper": WHISPER,
    "speech_to_text": SPEECH_TO_TEXT,
    "detr": DETR,
    "wav2vec2": WAV2VEC2,
    "wav2vec2-stable": WAV2VEC2_STABLE,
    "wav2vec2-conformer": CONFORMER,
    **dict.fromkeys(("parakeet_ctc", "parakeet_encoder"), PARAKEET),
    "gemma3n_audio": GEMMA3N_AUDIO,
    "wav2vec2-bert": _ADAPTER
    + CONFORMER
    + _layers(r"(?:\w+\.)?encoder\.", "", {r"conv_module\.depthwise_layer_norm": "convolution.layer_norm"})
    + _layers(r"(?:\w+\.)?encoder\.", "", {r"self_attn\.distance_embedding": "attention.relative_key"}),
}
