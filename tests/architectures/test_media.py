"""Models of pictures and sound against transformers' own classes of the same config, small.

Counted there: elements and shapes of the parameters, which of them are trained, FLOPs of matrix products and
convolutions of one pass over a batch, and of forward and backward where the class keeps all of its result.
"""

from __future__ import annotations

import json
from math import prod
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameter_shapes, weights  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from tests.architectures.cases_media import (  # noqa: E402
    CROSSED,
    MEDIA,
    MLLAMA,
    NESTED,
    PARAKEET,
    RESNET,
    SAM2,
    SAM_VIT,
    TILED,
    TROCR,
    media_cases,
)
from tests.architectures.renaming import compare  # noqa: E402
from tests.architectures.test_refusals import assert_one_line, garbage  # noqa: E402
from tests.architectures.their_models import tiles  # noqa: E402

BATCH, SEQ, SAMPLES, FRAMES, PIXELS = 2, 11, 400, 23, (70, 90)


MAPPED, PROMPT, TWO_WAY = SAM2["vision_config"], SAM2["prompt_encoder_config"], SAM2["mask_decoder_config"]
WIDE = {"backbone_feature_sizes": [[16, 16], [8, 8], [8, 8]]}
POOLED_ONCE = {
    "backbone_config": NESTED | {"num_query_pool_stages": 1, "blocks_per_stage": [1, 2, 2]},
    "backbone_channel_list": [36, 24, 12],
    "fpn_top_down_levels": [0],
}
FRAMES_OF_BERT = {"architectures": ["Wav2Vec2BertForAudioFrameClassification"]}
LEFT = "conf_attention_context_left"
NARROWER = {"attention_downsample_rate": 4}
NARROW = {"cross_attention_hidden_size": None}
PAIRS = ("clip", "siglip", "siglip2")
SPEAKING = ("wav2vec2", "hubert", "wavlm", "unispeech")
"""How the names of families begin that read raw samples."""
TEXT_ALONE = ("clip_text_model", "siglip_text_model", "siglip2_text_model")


def build(model_type: str, name: str, config: dict[str, Any]) -> Any:
    """transformers' model on the CPU: some of these look at values."""
    own = model_type in (*PAIRS, *TEXT_ALONE)
    special = {} if own else {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
    if model_type == "whisper":
        special |= {"decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None}
    parsed = transformers.AutoConfig.for_model(model_type, architectures=[name], **(special | config))
    torch.manual_seed(0)
    model = getattr(transformers, name)._from_config(parsed, attn_implementation="eager")
    return model.eval()


def inputs(model_type: str, config: Any) -> tuple[dict[str, Any], Load]:
    """BATCH sequences or pictures for transformers' model, and the load that describes them."""
    # CLIP reads the vector of the end-of-text token.
    tokens = torch.arange(SEQ).flip(0).repeat(BATCH, 1) + 1
    if model_type.startswith("siglip2") and model_type not in TEXT_ALONE:
        vision = getattr(config, "vision_config", config)
        side, patch = int(vision.num_patches**0.5), vision.patch_size
        pictures = {
            "pixel_values": torch.rand(BATCH, vision.num_patches, vision.num_channels * patch**2),
            "pixel_attention_mask": torch.ones(BATCH, vision.num_patches, dtype=torch.long),
            "spatial_shapes": torch.tensor([[side, side]] * BATCH),
        }
        alone = model_type == "siglip2_vision_model"
        return pictures if alone else pictures | {"input_ids": tokens}, Load(batch=BATCH, seq=SEQ, images=BATCH)
    if model_type in PAIRS:
        side = config.vision_config.image_size
        pixels = torch.rand(BATCH + 1, config.vision_config.num_channels, side, side)
        return {"input_ids": tokens, "pixel_values": pixels}, Load(batch=BATCH, seq=SEQ, images=BATCH + 1)
    if model_type in TEXT_ALONE:
        return {"input_ids": tokens}, Load(batch=BATCH, seq=SEQ)
    if model_type == "vision-encoder-decoder":
        side = config.encoder.image_size
        return {"pixel_values": torch.rand(BATCH, 3, side, side), "decoder_input_ids": tokens}, Load(BATCH, SEQ)
    if model_type == "mllama_vision_model":
        return tiles(config, "cpu", BATCH), Load(batch=BATCH)
    if model_type == "mllama":
        pictures = tiles(config.vision_config, "cpu", BATCH)
        return {"input_ids": tokens} | pictures, Load(batch=BATCH, seq=SEQ)
    if (heard := _sounds(model_type, config, tokens)) is not None:
        return heard
    if model_type == "patchtst":
        values = torch.rand(BATCH, config.context_length, config.num_input_channels)
        return {"past_values": values}, Load(batch=BATCH * config.num_input_channels)
    if model_type == "audio-spectrogram-transformer":
        return {"input_values": torch.rand(BATCH, config.max_length, config.num_mel_bins)}, Load(batch=BATCH)
    if model_type == "detr":
        return {"pixel_values": torch.rand(BATCH, 3, *PIXELS)}, Load(batch=BATCH, image=PIXELS)
    given: dict[str, Any] = {}
    if model_type in ("sam", "sam2"):
        side = config.prompt_encoder_config.image_size
        kinds = torch.arange(BATCH).reshape(BATCH, 1, 1) % 2
        given = {"input_points": torch.rand(BATCH, 1, 1, 2) * side, "input_labels": kinds}
        config = config.vision_config
    config = getattr(config, "backbone_config", config)
    sides = config.image_size
    sides = (sides, sides) if isinstance(sides, int) else sides
    return given | {"pixel_values": torch.rand(BATCH, config.num_channels, *sides)}, Load(batch=BATCH)


def _sounds(model_type: str, config: Any, tokens: Any) -> tuple[dict[str, Any], Load] | None:
    """What `inputs` gives for models that hear; None for others."""
    if model_type == "speech_to_text":
        mel = torch.rand(BATCH, 61, config.input_feat_per_channel * config.input_channels)
        return {"input_features": mel, "decoder_input_ids": tokens}, Load(batch=BATCH, seq=SEQ, source=61)
    if model_type == "whisper":
        mel = torch.rand(BATCH, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": mel, "decoder_input_ids": tokens}, Load(batch=BATCH, seq=SEQ)
    if model_type == "wav2vec2-bert":
        frames = torch.rand(BATCH, FRAMES, config.feature_projection_input_dim)
        return {"input_features": frames}, Load(batch=BATCH, source=FRAMES)
    if model_type == "gemma3n_audio":
        there = torch.zeros(BATCH, FRAMES, dtype=torch.bool)
        mel = torch.rand(BATCH, FRAMES, config.input_feat_size)
        return {"audio_mel": mel, "audio_mel_mask": there}, Load(batch=BATCH, source=FRAMES)
    if model_type.startswith("parakeet"):
        mel = torch.rand(BATCH, FRAMES, getattr(config, "encoder_config", config).num_mel_bins)
        return {"input_features": mel}, Load(batch=BATCH, source=FRAMES)
    if model_type.startswith(SPEAKING):
        return {"input_values": torch.rand(BATCH, SAMPLES)}, Load(batch=BATCH, source=SAMPLES)
    return None


def run(model: Any, given: dict[str, Any]) -> Any:
    """One pass. Pixtral's pictures go in one by one: of several it multiplies all patches with all, and hides some."""
    if model.config.model_type != "pixtral":
        return model(**given)
    return {"last_hidden_state": torch.cat([model(each[None]).last_hidden_state for each in given["pixel_values"]])}


@pytest.mark.parametrize(("model_type", "name", "config"), media_cases())
def test_same_as_transformers(model_type: str, name: str, config: dict[str, Any]) -> None:
    model = build(model_type, name, config)
    given, load = inputs(model_type, model.config)
    with torch.no_grad():
        whole = count(lambda: run(model, given))
    parameters = dict(model.named_parameters())
    rules = f"{model_type}-stable" if config.get("do_stable_layer_norm") else model_type
    saved = json.loads(model.config.to_json_string(use_diff=False))
    for raw in ({"model_type": model_type, "architectures": [name], **config}, saved):
        spec = from_config(raw)
        shapes = parameter_shapes(spec)
        ours = {path: prod(shape) for path, shape in shapes.items()}
        assert compare({path: p.numel() for path, p in parameters.items()}, ours, rules) == {}
        assert forward(spec, load).total == whole
        trained = sum(w.elements * leaf.copies for _, w, leaf in weights(spec) if w.trainable)
        assert trained == sum(p.numel() for p in parameters.values() if p.requires_grad)
        kernels = [sorted(s for s in every if len(s) > 2) for every in (shapes.values(), theirs_of(parameters))]
        # SigLIP 2 reads patches that are cut already, with a matrix.
        assert kernels[0] == kernels[1] or model_type in ("siglip2", "siglip2_vision_model")


def theirs_of(parameters: dict[str, Any]) -> list[tuple[int, ...]]:
    """Shapes of the kernels of convolutions; a table of positions or codes is none, and neither are lengths of ones.
    Parakeet's head is written as a kernel of one step."""
    tables = (
        "_token",
        "_tokens",
        "position_embeddings",
        "codevectors",
        "original0",
        "probe",
        "pos_const",
        "pos_embed",
        "pos_embed_window",
        "no_memory_embedding",
        "logit_scale",
    )
    return [tuple(p.shape) for name, p in parameters.items() if not name.endswith((*tables, "ctc_head.weight"))]


BACKWARD = [
    case
    for case in media_cases()
    if case[1].endswith(
        (
            "HieraDetModel",
            "Sam2VisionModel",
            "Sam2Model",
            "MllamaVisionModel",
            "SamModel",
            "SamVisionModel",
            "Classification",
            "WithTeacher",
            "Generation",
            "CTC",
            "Detection",
            "DecoderModel",
            "Prediction",
        )
    )
]


@pytest.mark.parametrize(("model_type", "name", "config"), BACKWARD)
def test_backward(model_type: str, name: str, config: dict[str, Any]) -> None:
    """Pixels and sound need no gradient, frozen weights none either."""
    model = build(model_type, name, config)
    given, load = inputs(model_type, model.config)
    both = count(lambda: _everything(model(**given)).backward())
    spec = from_config({"model_type": model_type, "architectures": [name], **config})
    assert training(spec, load).total == both


def _everything(out: Any) -> Any:
    """The sum of all that a head says."""
    if "pred_masks" in out:
        found = out.pred_masks.sum() + out.iou_scores.sum()
        return found + out.object_score_logits.sum() if "object_score_logits" in out else found
    if "fpn_hidden_states" in out:
        return out.last_hidden_state.sum() + sum(each.sum() for each in out.fpn_hidden_states)
    heads = ("logits", "pred_boxes", "prediction_outputs")
    heads = ("cls_logits", "distillation_logits") if "cls_logits" in out else heads
    said = [out[head].sum() for head in heads if head in out]
    return sum(said) if said else out.last_hidden_state.sum()


@pytest.mark.slow
@pytest.mark.parametrize("model_type", sorted(MEDIA))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_reads_or_refuses(model_type: str, data: st.DataObject) -> None:
    """Up to four keys of a good config are dropped, or hold anything; a nested object may be hit inside."""
    config, _, variants = MEDIA[model_type]
    raw = {"model_type": model_type} | config | data.draw(st.sampled_from([{}, *variants]))
    for key in data.draw(st.lists(st.sampled_from(sorted(raw)), min_size=1, max_size=4, unique=True)):
        place = raw
        if isinstance(raw.get(key), dict) and raw[key] and data.draw(st.booleans()):
            raw[key] = place = dict(raw[key])
            key = data.draw(st.sampled_from(sorted(place)))
        if data.draw(st.booleans()):
            place[key] = data.draw(garbage)
        else:
            place.pop(key, None)
    try:
        spec = from_config(raw)
    except Refused as error:
        assert_one_line(error)
        return
    assert sum(weight.elements for _, weight, _ in weights(spec)) > 0


@pytest.mark.parametrize(
    ("model_type", "name"),
    [("whisper", "WhisperForConditionalGeneration"), ("speech_to_text", "Speech2TextForConditionalGeneration")],
)
@torch.no_grad()
def test_format_of_the_loss(model_type: str, name: str) -> None:
    """Of a model in half precision, the loss is in fp32 where its logits were widened, and else in theirs."""
    config = MEDIA[model_type][0]
    model = build(model_type, name, config).to(torch.bfloat16)
    given, _ = inputs(model_type, model.config)
    given["input_features"] = given["input_features"].to(torch.bfloat16)
    head = from_config({"model_type": model_type, "architectures": [name], **config}).head
    assert head is not None
    found = model(**given, labels=given["decoder_input_ids"]).loss.dtype
    assert found == (torch.float32 if head.wide_loss else torch.bfloat16)


@pytest.mark.parametrize("change", [{}, {"num_adapter_layers": 3, "adapter_kernel_size": 2}, {"adapter_stride": 1}])
def test_an_adapter_with_nothing_ahead_of_it(change: dict[str, Any]) -> None:
    """W2v-BERT 2.0's, without the block that may stand between it and the encoder."""
    config = MEDIA["wav2vec2-bert"][0] | {"add_adapter": True, "adapter_kernel_size": 1} | change
    model = build("wav2vec2-bert", "Wav2Vec2BertForCTC", config)
    given, load = inputs("wav2vec2-bert", model.config)
    with torch.no_grad():
        whole = count(lambda: model(**given))
    spec = from_config({"model_type": "wav2vec2-bert", "architectures": ["Wav2Vec2BertForCTC"], **config})
    assert sum(prod(shape) for shape in parameter_shapes(spec).values()) == sum(p.numel() for p in model.parameters())
    assert forward(spec, load).total == whole


@pytest.mark.parametrize("layers", [2, 4])
def test_whisper_decodes_from_its_cache(layers: int) -> None:
    """One more token: no encoder, no keys and values of its result; both caches by their tensors."""
    config = MEDIA["whisper"][0] | {"decoder_layers": layers}
    model = build("whisper", "WhisperForConditionalGeneration", config)
    given, _ = inputs("whisper", model.config)
    with torch.no_grad():
        first = model(**given, use_cache=True)
        cache = first.past_key_values
        kept = sum(
            t.numel() * 2
            for part in (cache.self_attention_cache, cache.cross_attention_cache)
            for layer in part.layers
            for t in (layer.keys, layer.values)
        )
        token, read = given["decoder_input_ids"][:, :1], (first.encoder_last_hidden_state,)
        one = count(lambda: model(encoder_outputs=read, decoder_input_ids=token, past_key_values=cache))
    spec = from_config({"model_type": "whisper", **config})
    assert forward(spec, Load(batch=BATCH, seq=1, context=SEQ, decode=True)).total == one
    assert kv_cache(spec, BATCH, SEQ, "bf16").total_bytes == kept


def test_pictures_are_read_once_and_cached() -> None:
    """One more token: no tower, no keys and values of its tiles; layers that read these keep nothing else."""
    model = build("mllama", "MllamaForConditionalGeneration", MEDIA["mllama"][0])
    given, _ = inputs("mllama", model.config)
    with torch.no_grad():
        cache = model(**given, use_cache=True).past_key_values
        kept = sum(t.numel() * 2 for layer in cache.layers for t in (layer.keys, layer.values))
        one = count(lambda: model(input_ids=given["input_ids"][:, :1], past_key_values=cache))
    spec = from_config({"model_type": "mllama", **MEDIA["mllama"][0]})
    assert forward(spec, Load(batch=BATCH, seq=1, context=SEQ, decode=True)).total == one
    assert kv_cache(spec, BATCH, SEQ, "bf16").total_bytes == kept


@pytest.mark.parametrize("layers", [[0, 2, 4], [4, 9], None])
def test_pictures_are_read_by_the_layers_that_the_config_numbers(layers: list[int] | None) -> None:
    """Numbers beyond the last layer are of none."""
    config = MLLAMA | {"text_config": CROSSED | {"cross_attention_layers": layers}}
    model = build("mllama", "MllamaForConditionalGeneration", config)
    given, load = inputs("mllama", model.config)
    with torch.no_grad():
        whole = count(lambda: model(**given))
    spec = from_config({"model_type": "mllama", **config})
    assert sum(prod(shape) for shape in parameter_shapes(spec).values()) == sum(p.numel() for p in model.parameters())
    assert forward(spec, load).total == whole
    for i, layer in enumerate(model.model.language_model.layers):
        assert (f"layers.{i}.cross_attention.q_proj.weight" in parameter_shapes(spec)) is hasattr(layer, "cross_attn")


def test_named_backbone_trains_its_later_stages() -> None:
    """As the published config writes it. conv1 and layer1 of a ResNet-50 hold 222,400 weights (He et al. 2016)."""
    config = MEDIA["detr"][0] | {"use_timm_backbone": True, "backbone": "resnet50", "backbone_config": None}
    rows = [(w, leaf) for _, w, leaf in weights(from_config({"model_type": "detr", **config}))]
    frozen = sum(w.elements * leaf.copies for w, leaf in rows if not w.trainable)
    assert frozen == 64 * 3 * 49 + 3 * (64 * 64 * 9 + 64 * 256) + 64 * 64 + 2 * 256 * 64 + 64 * 256


@pytest.mark.parametrize(
    ("model_type", "change", "field"),
    [
        ("vit", {"architectures": ["ViTForMaskedImageModeling"]}, "architectures"),
        ("vit", {"num_attention_heads": 5}, "num_attention_heads"),
        ("vit", {"image_size": [30, 0]}, "image_size"),
        ("vit", {"image_size": 4}, "height"),
        ("dinov2", {"image_size": [16, 24]}, "image_size"),
        ("vit_mae", {"image_size": 30}, "image_size"),
        ("vit_mae", {"image_size": [32, 16], "architectures": ["ViTMAEModel"]}, "image_size"),
        ("vit_mae", {"patch_size": [8, 8]}, "patch_size"),
        ("vit_mae", {"mask_ratio": 0.97}, "mask_ratio"),
        ("vit_mae", {"mask_ratio": -0.1}, "mask_ratio"),
        ("vit_mae", {"hidden_size": 34, "num_attention_heads": 2}, "hidden_size"),
        ("vit_mae", {"decoder_hidden_size": 27}, "decoder_hidden_size"),
        ("vit_mae", {"decoder_num_attention_heads": 5}, "decoder_num_attention_heads"),
        ("vit_mae", {"architectures": ["ViTMAEForImageClassification"]}, "architectures"),
        ("dinov2", {"architectures": ["Dinov2ForImageClassification"]}, "architectures"),
        ("dinov3_vit", {"value_bias": False}, "value_bias"),
        ("dinov3_vit", {"num_attention_heads": 3}, "hidden_size"),
        ("clip", {"text_config": {"num_attention_heads": 7}}, "text_config.hidden_size"),
        ("siglip", {"text_config": {"projection_size": 48}}, "text_config.projection_size"),
        ("siglip", {"vision_config": {"hidden_size": 32, "vision_use_head": False}}, "vision_config.vision_use_head"),
        ("patchtst", {"channel_attention": True}, "channel_attention"),
        ("patchtst", {"share_embedding": False}, "share_embedding"),
        ("patchtst", {"pre_norm": False}, "pre_norm"),
        ("patchtst", {"norm_type": "rmsnorm"}, "norm_type"),
        ("patchtst", {"context_length": 7}, "context_length"),
        ("patchtst", {"num_attention_heads": 5}, "num_attention_heads"),
        ("patchtst", {"d_model": 33, "num_attention_heads": 3}, "d_model"),
        ("patchtst", {"architectures": ["PatchTSTForClassification"]}, "architectures"),
        ("patchtst", {"architectures": ["PatchTSTForPrediction"], "loss": "nll"}, "loss"),
        ("patchtst", {"architectures": ["PatchTSTForPrediction"], "share_projection": False}, "share_projection"),
        ("patchtst", {"architectures": ["PatchTSTForPrediction"], "pooling_type": "sum"}, "pooling_type"),
        ("whisper", {"encoder_attention_heads": 5}, "d_model"),
        ("wav2vec2", {"add_adapter": True}, "add_adapter"),
        ("wav2vec2", {"conv_stride": [5, 2]}, "conv_stride"),
        ("wav2vec2", {"conv_kernel": [10, 3, 0]}, "conv_kernel"),
        ("unispeech", {"architectures": ["UniSpeechForPreTraining"]}, "architectures"),
        ("unispeech", {"adapter_attn_dim": 4}, "adapter_attn_dim"),
        ("unispeech-sat", {"architectures": ["UniSpeechSatForXVector"]}, "architectures"),
        ("hubert", {"conv_pos_batch_norm": True}, "conv_pos_batch_norm"),
        ("wavlm", {"num_buckets": 14}, "num_buckets"),
        ("wavlm", {"max_bucket_distance": 3}, "max_bucket_distance"),
        ("wavlm", {"add_adapter": True}, "add_adapter"),
        ("wavlm", {"use_weighted_layer_sum": True}, "use_weighted_layer_sum"),
        ("wavlm", {"architectures": ["WavLMForXVector"]}, "architectures"),
        (
            "parakeet_ctc",
            {"encoder_config": PARAKEET["encoder_config"] | {"num_mel_bins": 20}},
            "encoder_config.num_mel_bins",
        ),
        (
            "parakeet_ctc",
            {"encoder_config": PARAKEET["encoder_config"] | {"conv_kernel_size": 4}},
            "encoder_config.conv_kernel_size",
        ),
        (
            "parakeet_ctc",
            {"encoder_config": PARAKEET["encoder_config"] | {"num_key_value_heads": 2}},
            "encoder_config.num_key_value_heads",
        ),
        (
            "parakeet_ctc",
            {"encoder_config": PARAKEET["encoder_config"] | {"subsampling_factor": 1}},
            "encoder_config.num_mel_bins",
        ),
        ("parakeet_encoder", {"hidden_size": None}, "hidden_size"),
        ("gemma3n_audio", {LEFT: 1, "conf_attention_context_right": 0}, LEFT),
        ("gemma3n_audio", {"sscp_conv_kernel_size": [[3, 3], [3, 11]]}, "sscp_conv_kernel_size"),
        ("gemma3n_audio", {"sscp_conv_stride_size": [[2, 2], [2, 2], [1, 1]]}, "sscp_conv_stride_size"),
        ("gemma3n_audio", {"sscp_conv_channel_size": [6, 3, 3]}, "sscp_conv_channel_size"),
        ("gemma3n_audio", {"hidden_size": 30}, "hidden_size"),
        ("gemma3n_audio", {"hidden_size": 15, "conf_num_attention_heads": 5}, "hidden_size"),
        ("gemma3n_audio", {"architectures": ["Gemma3nForConditionalGeneration"]}, "architectures"),
        ("wav2vec2-bert", {"vocab_size": None, "architectures": ["Wav2Vec2BertForCTC"]}, "vocab_size"),
        ("wav2vec2-bert", {"position_embeddings_type": "absolute"}, "position_embeddings_type"),
        ("wav2vec2-bert", {"right_max_position_embeddings": 0}, "right_max_position_embeddings"),
        ("wav2vec2-bert", {"add_adapter": True} | FRAMES_OF_BERT, "add_adapter"),
        ("wav2vec2-bert", {"add_adapter": True, "output_hidden_size": 24}, "output_hidden_size"),
        ("wav2vec2-bert", {"add_adapter": True, "adapter_kernel_size": 4}, "adapter_kernel_size"),
        ("wav2vec2-bert", {"use_intermediate_ffn_before_adapter": True}, "use_intermediate_ffn_before_adapter"),
        ("wav2vec2-bert", {"conv_depthwise_kernel_size": 4}, "conv_depthwise_kernel_size"),
        ("wav2vec2-conformer", {"conv_depthwise_kernel_size": 4}, "conv_depthwise_kernel_size"),
        ("swin", {"architectures": ["SwinForMaskedImageModeling"]}, "architectures"),
        ("swin", {"window_size": 5}, "window_size"),
        ("swin", {"num_heads": [2, 5, 6]}, "embed_dim"),
        ("swin", {"num_heads": [2]}, "num_heads"),
        ("swin", {"depths": [2, 0]}, "depths"),
        ("swin", {"image_size": 33, "use_absolute_embeddings": True}, "image_size"),
        ("swinv2", {"use_absolute_embeddings": True}, "use_absolute_embeddings"),
        ("sam2_hiera_det_model", {"architectures": ["Sam2Model"]}, "architectures"),
        ("sam2_hiera_det_model", {"hidden_size": 24}, "hidden_size"),
        ("sam2_vision_model", {"architectures": ["Sam2Model"]}, "architectures"),
        ("sam2_vision_model", {"backbone_channel_list": [48, 36, 24]}, "backbone_channel_list"),
        ("sam2_vision_model", {"fpn_kernel_size": 3}, "fpn_kernel_size"),
        ("sam2_vision_model", {"num_feature_levels": 2}, "num_feature_levels"),
        ("sam2_vision_model", {"backbone_config": NESTED | {"query_stride": 1}}, "fpn_top_down_levels"),
        ("sam2_vision_model", {"backbone_config": NESTED | {"hidden_size": 8}}, "backbone_config.hidden_size"),
        ("sam2_vision_model", {"backbone_config": {"model_type": "hiera"}}, "backbone_config.model_type"),
        ("sam2_hiera_det_model", {"global_attention_blocks": [3]}, "query_stride"),
        ("sam2_hiera_det_model", {"window_size_per_stage": [3, 2, 6, 3]}, "query_stride"),
        ("sam2_hiera_det_model", {"embed_dim_per_stage": [12, 12, 36, 48]}, "query_stride"),
        ("sam2_hiera_det_model", {"query_stride": [2, 4]}, "query_stride"),
        ("sam2_hiera_det_model", {"patch_padding": [3, 2]}, "patch_padding"),
        ("sam2_hiera_det_model", {"blocks_per_stage": [1, 0, 2, 1]}, "blocks_per_stage"),
        ("sam2_hiera_det_model", {"num_attention_heads_per_stage": [1, 5, 3, 4]}, "embed_dim_per_stage"),
        ("sam", {"architectures": ["SamHQModel"]}, "architectures"),
        ("sam", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("sam", {"vision_config": SAM_VIT | {"use_rel_pos": False}}, "vision_config.use_rel_pos"),
        ("sam", {"vision_config": SAM_VIT | {"num_pos_feats": 16}}, "vision_config.num_pos_feats"),
        ("sam", {"vision_config": SAM_VIT | {"image_size": [56, 56]}}, "vision_config.image_size"),
        ("sam", {"vision_config": SAM_VIT | {"patch_size": 4}}, "prompt_encoder_config.patch_size"),
        ("sam", {"prompt_encoder_config": PROMPT}, "prompt_encoder_config.image_size"),
        ("sam", {"mask_decoder_config": TWO_WAY | {"hidden_size": 24}}, "mask_decoder_config.hidden_size"),
        ("sam", {"mask_decoder_config": TWO_WAY | NARROWER}, "mask_decoder_config.attention_downsample_rate"),
        ("sam_vision_model", {"architectures": ["SamModel"]}, "architectures"),
        ("sam_vision_model", {"num_attention_heads": 5}, "hidden_size"),
        ("sam2", {"architectures": ["Sam2VideoModel"]}, "architectures"),
        ("sam2", {"vision_config": MAPPED | {"num_feature_levels": 4}}, "vision_config.num_feature_levels"),
        ("sam2", {"vision_config": MAPPED | {"model_type": "sam3_vision_model"}}, "vision_config.model_type"),
        ("sam2", {"vision_config": MAPPED | {"fpn_hidden_size": 24}}, "prompt_encoder_config.hidden_size"),
        ("sam2", {"vision_config": MAPPED | WIDE}, "vision_config.backbone_feature_sizes"),
        ("sam2", {"vision_config": MAPPED | POOLED_ONCE}, "vision_config.backbone_config.query_stride"),
        ("sam2", {"prompt_encoder_config": PROMPT | {"image_size": 96}}, "prompt_encoder_config.image_size"),
        ("sam2", {"prompt_encoder_config": PROMPT | {"patch_size": 8}}, "prompt_encoder_config.patch_size"),
        (
            "sam2",
            {"prompt_encoder_config": PROMPT | {"mask_input_channels": 6}},
            "prompt_encoder_config.mask_input_channels",
        ),
        ("sam2", {"mask_decoder_config": TWO_WAY | {"num_attention_heads": 3}}, "mask_decoder_config.hidden_size"),
        ("swinv2", {"image_size": [32, 64]}, "image_size"),
        ("detr", {"dilation": True}, "dilation"),
        ("vision-encoder-decoder", {"encoder": {"model_type": "swin"}}, "encoder.model_type"),
        ("vision-encoder-decoder", {"decoder": {"model_type": "bert", "d_model": 32}}, "decoder.model_type"),
        ("vision-encoder-decoder", {"decoder": TROCR["decoder"] | NARROW}, "decoder.cross_attention_hidden_size"),
        ("mllama", {"architectures": ["MllamaForCausalLM"]}, "architectures"),
        ("mllama_vision_model", {"architectures": ["MllamaModel"]}, "architectures"),
        ("mllama_vision_model", {"vision_output_dim": 96}, "vision_output_dim"),
        ("mllama", {"vision_config": TILED | {"image_size": [34, 34]}}, "vision_config.image_size"),
        ("mllama", {"vision_config": TILED | {"vision_output_dim": 96}}, "vision_config.vision_output_dim"),
        ("mllama", {"vision_config": TILED | {"max_num_tiles": 3}}, "vision_config.max_num_tiles"),
        (
            "mllama",
            {"vision_config": TILED | {"intermediate_layers_indices": [2, 4]}},
            "vision_config.intermediate_layers_indices",
        ),
        ("mllama", {"text_config": CROSSED | {"cross_attention_layers": [7]}}, "text_config.cross_attention_layers"),
        ("mllama", {"text_config": CROSSED | {"head_dim": 16}}, "text_config.head_dim"),
        ("detr", {"backbone_config": {"model_type": "swin"}}, "backbone_config.model_type"),
        ("detr", {"backbone_config": RESNET | {"hidden_act": "xielu"}}, "backbone_config.hidden_act"),
    ],
)
def test_refuses(model_type: str, change: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as caught:
        from_config({"model_type": model_type} | MEDIA[model_type][0] | change)
    assert caught.value.field == field
