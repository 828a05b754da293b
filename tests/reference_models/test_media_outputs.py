"""Twins of the models of pictures and sound: outputs against transformers' with the same weights, all drawn anew."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.model import Output  # noqa: E402
from tests.architectures.cases_media import ADAPTED, FIXED, MEDIA, RESNET, SIDES, TROCR  # noqa: E402
from tests.architectures.renaming import rename  # noqa: E402
from tests.architectures.test_media import build as transformers_model  # noqa: E402
from tests.architectures.test_media import inputs, run  # noqa: E402

BACKBONE = (
    (r".*backbone\.model\.(encoder\.)?", "encoder.embedding.backbone."),
    (r"embedder\.embedder\.convolution", "stem"),
    (r"embedder\.embedder\.normalization", "stem_norm"),
    (r"layer\.(\d+)\.convolution", r"conv\1"),
    (r"layer\.(\d+)\.normalization", r"norm\1"),
    (r"shortcut\.convolution", "shortcut"),
    (r"shortcut\.normalization", "shortcut_norm"),
    ("running_mean", "mean"),
    ("running_var", "variance"),
)
"""DETR's network of convolutions, tensor by tensor: (pattern in transformers' name, what stands there in ours)."""


def copied(model_type: str, name: str, config: dict[str, Any]) -> tuple[Any, Any]:
    """(transformers' model, ours with its weights), both in float64; weights and running means are random."""
    theirs = transformers_model(model_type, name, config).double()
    raw = {"model_type": model_type, "architectures": [name], **config}
    ours = build(from_config(raw)).double().eval()
    rules = f"{model_type}-stable" if config.get("do_stable_layer_norm") else model_type
    gathered: dict[str, list[Any]] = {}
    for path, tensor in drawn(theirs):
        names = (in_backbone(path),) if "backbone" in path else rename(path, rules)
        for mine, part in zip(names, tensor.detach().reshape(len(names), -1), strict=True):
            gathered.setdefault(mine, []).append(part)
    with torch.no_grad():
        written = ours.state_dict()
        for path, parameter in [*ours.named_parameters(), *ours.named_buffers()]:
            if path in written and not path.endswith("num_batches_tracked"):
                parameter.copy_(own_of(path, parameter, gathered))
    return theirs, ours


def drawn(model: Any) -> list[tuple[str, Any]]:
    """Parameters, and what batch norms hold, by name: random, but for fixed positions; variances above 0."""
    held = [(path, buffer) for path, buffer in model.named_buffers() if re.search(r"norm\w*\.(weight|bias|run)", path)]
    every = [*model.named_parameters(), *held]
    for path, tensor in every:
        if not path.endswith("encoder.embed_positions.weight"):
            tensor.detach().normal_(std=0.4)
        if path.endswith(("running_var", "original0", "normalization.weight")):
            tensor.detach().abs_().add_(0.5)
    return every


def in_backbone(path: str) -> str:
    """Our name of a tensor of the network that DETR looks through."""
    for pattern, ours in BACKBONE:
        path = re.sub(pattern, ours, path)
    return path


def own_of(path: str, parameter: Any, gathered: dict[str, list[Any]]) -> Any:
    """transformers' tensor of ours: several of them side by side, or the next one of a bundle of many."""
    if path in gathered:
        return torch.cat([each.reshape(-1) for each in gathered[path]]).view_as(parameter)
    bundle = next(key for key in gathered if "*" in key and path.startswith(key.split("*")[0]) and _end(key, path))
    return gathered[bundle].pop(0).view_as(parameter)


def _end(bundle: str, path: str) -> bool:
    return path.endswith(bundle.split("*")[1])


UNMASKED = {"scaling": None, "random_mask_ratio": 0.0}
UNUSUAL = {
    "gradient_clipping": 0.7,
    "conf_attention_logit_cap": 3.0,
    "conf_residual_weight": 0.3,
    "rms_norm_eps": 0.05,
    "sscp_conv_group_norm_eps": 0.1,
}
UNSCALED = {"pad_token_id": 15, "scale_embedding": False}
SAME: list[tuple[str, str, dict[str, Any], tuple[str, ...]]] = [
    ("vit", "ViTForImageClassification", {}, ("logits",)),
    ("vit", "ViTModel", {"image_size": [16, 24], "patch_size": [8, 6]}, ("last_hidden_state", "pooler_output")),
    ("deit", "DeiTForImageClassificationWithTeacher", {}, ("cls_logits", "distillation_logits")),
    ("deit", "DeiTModel", {}, ("last_hidden_state", "pooler_output")),
    ("dinov2", "Dinov2Model", {"layer_norm_eps": 0.03}, ("last_hidden_state",)),
    ("dinov2", "Dinov2Model", {"use_swiglu_ffn": True, "qkv_bias": False}, ("last_hidden_state",)),
    ("dinov2_with_registers", "Dinov2WithRegistersModel", {}, ("last_hidden_state",)),
    ("dinov3_vit", "DINOv3ViTModel", {"rope_theta": 7.0, "layer_norm_eps": 0.03}, ("last_hidden_state",)),
    ("dinov3_vit", "DINOv3ViTModel", SIDES | {"use_gated_mlp": True, "key_bias": True}, ("last_hidden_state",)),
    ("swin", "SwinForImageClassification", {}, ("logits",)),
    ("swinv2", "Swinv2ForImageClassification", {}, ("logits",)),
    ("swinv2", "Swinv2Model", MEDIA["swinv2"][2][1], ("last_hidden_state",)),
    ("swin", "SwinModel", MEDIA["swin"][2][0], ("last_hidden_state",)),
    ("swin", "SwinModel", MEDIA["swin"][2][1], ("last_hidden_state",)),
    ("vision-encoder-decoder", "VisionEncoderDecoderModel", {}, ("logits", "encoder_last_hidden_state")),
    ("vision-encoder-decoder", "VisionEncoderDecoderModel", {"decoder": TROCR["decoder"] | FIXED}, ("logits",)),
    ("mllama", "MllamaForConditionalGeneration", {}, ("logits",)),
    ("mllama", "MllamaForConditionalGeneration", MEDIA["mllama"][2][0], ("logits",)),
    ("mllama", "MllamaModel", MEDIA["mllama"][2][1], ("last_hidden_state",)),
    *(
        ("sam_vision_model", "SamVisionModel", change, ("last_hidden_state",))
        for change in ({}, *MEDIA["sam_vision_model"][2])
    ),
    ("mllama_vision_model", "MllamaVisionModel", {}, ("last_hidden_state",)),
    ("mllama_vision_model", "MllamaVisionModel", MEDIA["mllama_vision_model"][2][0], ("last_hidden_state",)),
    ("mllama_vision_model", "MllamaVisionModel", MEDIA["mllama_vision_model"][2][1], ("last_hidden_state",)),
    ("vit_msn", "ViTMSNForImageClassification", {}, ("logits",)),
    ("ijepa", "IJepaForImageClassification", {}, ("logits",)),
    ("vit_mae", "ViTMAEForPreTraining", {"layer_norm_eps": 0.03}, ("logits",)),
    ("vit_mae", "ViTMAEModel", {"mask_ratio": 0.35}, ("last_hidden_state",)),
    ("hubert", "HubertForCTC", {}, ("logits",)),
    ("hubert", "HubertForSequenceClassification", {"do_stable_layer_norm": True}, ("logits",)),
    ("unispeech", "UniSpeechForCTC", {"do_stable_layer_norm": True}, ("logits",)),
    ("unispeech-sat", "UniSpeechSatForAudioFrameClassification", {}, ("logits",)),
    ("wavlm", "WavLMForCTC", {}, ("logits",)),
    ("wavlm", "WavLMForSequenceClassification", {"do_stable_layer_norm": True, "num_hidden_layers": 3}, ("logits",)),
    ("patchtst", "PatchTSTForPrediction", UNMASKED, ("prediction_outputs",)),
    ("patchtst", "PatchTSTForPrediction", UNMASKED | MEDIA["patchtst"][2][0], ("prediction_outputs",)),
    ("patchtst", "PatchTSTForPrediction", UNMASKED | MEDIA["patchtst"][2][1], ("prediction_outputs",)),
    ("patchtst", "PatchTSTForPrediction", UNMASKED | MEDIA["patchtst"][2][2], ("prediction_outputs",)),
    ("patchtst", "PatchTSTForPretraining", UNMASKED | {"use_cls_token": False}, ("prediction_output",)),
    ("patchtst", "PatchTSTModel", UNMASKED | MEDIA["patchtst"][2][0], ("last_hidden_state",)),
    ("audio-spectrogram-transformer", "ASTForAudioClassification", {}, ("logits",)),
    ("whisper", "WhisperForConditionalGeneration", {}, ("logits", "encoder_last_hidden_state")),
    ("whisper", "WhisperForConditionalGeneration", {"activation_function": "relu"}, ("logits",)),
    ("speech_to_text", "Speech2TextForConditionalGeneration", {}, ("logits", "encoder_last_hidden_state")),
    ("speech_to_text", "Speech2TextForConditionalGeneration", UNSCALED, ("logits",)),
    ("wav2vec2", "Wav2Vec2ForCTC", {}, ("logits",)),
    ("wav2vec2", "Wav2Vec2ForSequenceClassification", {"feat_extract_norm": "layer", "conv_bias": True}, ("logits",)),
    ("wav2vec2", "Wav2Vec2ForCTC", {"do_stable_layer_norm": True, "feat_extract_norm": "layer"}, ("logits",)),
    ("wav2vec2", "Wav2Vec2ForPreTraining", {}, ("projected_states", "projected_quantized_states")),
    ("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", {}, ("logits",)),
    ("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", {"position_embeddings_type": "rotary"}, ("logits",)),
    ("wav2vec2-conformer", "Wav2Vec2ConformerForCTC", {"position_embeddings_type": None}, ("logits",)),
    ("wav2vec2-bert", "Wav2Vec2BertForCTC", {}, ("logits",)),
    ("wav2vec2-bert", "Wav2Vec2BertForCTC", ADAPTED | {"num_adapter_layers": 2, "adapter_act": "gelu"}, ("logits",)),
    ("wav2vec2-bert", "Wav2Vec2BertModel", ADAPTED | {"adapter_stride": 4}, ("last_hidden_state",)),
    ("wav2vec2-bert", "Wav2Vec2BertForSequenceClassification", {"position_embeddings_type": "relative"}, ("logits",)),
    ("wav2vec2-bert", "Wav2Vec2BertModel", {"position_embeddings_type": "rotary"}, ("last_hidden_state",)),
    ("parakeet_ctc", "ParakeetForCTC", {}, ("logits",)),
    ("parakeet_ctc", "ParakeetForCTC", MEDIA["parakeet_ctc"][2][1], ("logits",)),
    ("parakeet_encoder", "ParakeetEncoder", {}, ("last_hidden_state",)),
    *(
        ("gemma3n_audio", "Gemma3nAudioEncoder", change, ("last_hidden_state",))
        for change in ({}, *MEDIA["gemma3n_audio"][2], UNUSUAL)
    ),
    ("clip", "CLIPModel", {}, ("logits_per_text", "text_embeds", "image_embeds")),
    ("clip_text_model", "CLIPTextModel", {}, ("last_hidden_state",)),
    ("clip_text_model", "CLIPTextModelWithProjection", {}, ("projected",)),
    ("clip_vision_model", "CLIPVisionModelWithProjection", {}, ("projected",)),
    ("siglip_text_model", "SiglipTextModel", {}, ("last_hidden_state", "pooler_output")),
    ("siglip2_text_model", "Siglip2TextModel", {}, ("last_hidden_state", "pooler_output")),
    ("siglip_vision_model", "SiglipVisionModel", {}, ("last_hidden_state", "pooler_output")),
    ("pixtral", "PixtralVisionModel", {"rope_theta": 50.0}, ("last_hidden_state",)),
    ("siglip", "SiglipModel", {}, ("logits_per_text", "text_embeds", "image_embeds")),
    ("detr", "DetrForObjectDetection", {}, ("logits", "pred_boxes", "last_hidden_state", "encoder_last_hidden_state")),
    ("detr", "DetrForObjectDetection", {"position_embedding_type": "learned"}, ("logits", "pred_boxes")),
    ("detr", "DetrModel", {"backbone_config": RESNET | {"layer_type": "basic"}}, ("last_hidden_state",)),
    ("detr", "DetrModel", {"backbone_config": RESNET | {"downsample_in_bottleneck": True}}, ("last_hidden_state",)),
]


@pytest.mark.parametrize(("model_type", "name", "change", "names"), SAME)
def test_same_as_transformers(model_type: str, name: str, change: dict[str, Any], names: tuple[str, ...]) -> None:
    if model_type == "speech_to_text":
        # None of the tokens is padding.
        change = {"pad_token_id": 20} | change
    theirs, ours = copied(model_type, name, MEDIA[model_type][0] | change)
    given, _ = inputs(model_type, theirs.config)
    given = {key: value.double() if value.is_floating_point() else value for key, value in given.items()}
    with torch.no_grad():
        # Which patches are masked is drawn anew.
        torch.manual_seed(1)
        expected = run(theirs, given)
        torch.manual_seed(1)
        arguments = our_arguments(model_type, given)
        if ours.whole.encoder is None:
            arguments.pop("source", None)
        out = ours(**arguments)
    for each in names:
        found = named(out, each)
        assert found.std() > 1e-4
        if model_type == "patchtst":
            expected[each] = of_channels(expected[each], each, found)
        if model_type == "sam_vision_model":
            expected[each] = expected[each].flatten(2).mT
        if model_type == "mllama_vision_model":
            # Tile by tile of one picture a sequence.
            expected[each] = expected[each].reshape(found.shape)
        theirs_of = "image_embeds" if "image_embeds" in expected else "text_embeds"
        torch.testing.assert_close(found, expected[theirs_of if each == "projected" else each], rtol=1e-5, atol=1e-5)


def of_channels(theirs: Any, name: str, ours: Any) -> Any:
    """What transformers gives for samples of several channels, in the shape of ours, of each channel by itself."""
    return (theirs.transpose(1, 2) if name == "prediction_outputs" else theirs).reshape(ours.shape)


def named(out: Output, name: str) -> Any:
    """What transformers calls `name`."""
    heads = list(out.heads.values())
    match name:
        case "logits":
            if "pixels" in out.heads:
                # The first vector of a picture stands for no patch.
                return out.heads["pixels"][:, 1:]
            return out.logits if out.logits is not None else out.heads.get("class_head", heads[-1])
        case "last_hidden_state":
            return out.heads.get("map", out.last)
        case "encoder_last_hidden_state":
            return out.step.source
        case "logits_per_text":
            return out.similarity
        case "projected_quantized_states":
            return out.step.targets[0]
        case "text_embeds" | "image_embeds":
            return torch.nn.functional.normalize(heads[-1] if name == "text_embeds" else out.seen, dim=-1)
    return heads[0 if name in ("cls_logits", "pooler_output", "projected_states") else -1]


def our_arguments(model_type: str, given: dict[str, Any]) -> dict[str, Any]:
    """What our model's forward takes in place of transformers' inputs: frames stand in rows, spectrograms in planes."""
    match model_type:
        case "clip" | "siglip":
            return {"inputs": given["input_ids"], "images": given["pixel_values"]}
        case "clip_text_model" | "siglip_text_model" | "siglip2_text_model":
            return {"inputs": given["input_ids"]}
        case "whisper":
            return {"inputs": given["decoder_input_ids"], "source": given["input_features"].transpose(1, 2)}
        case "speech_to_text":
            return {"inputs": given["decoder_input_ids"], "source": given["input_features"]}
        case "vision-encoder-decoder":
            return {"inputs": given["decoder_input_ids"], "source": given["pixel_values"]}
        case "mllama":
            return {"inputs": given["input_ids"], "source": given["pixel_values"][:, 0]}
        case "mllama_vision_model":
            return {"inputs": given["pixel_values"][:, 0]}
        case "wav2vec2-bert" | "parakeet_ctc" | "parakeet_encoder":
            return {"inputs": given["input_features"]}
        case "gemma3n_audio":
            return {"inputs": given["audio_mel"]}
        case "patchtst":
            return {"inputs": given["past_values"].transpose(1, 2).flatten(0, 1)}
        case "audio-spectrogram-transformer":
            return {"inputs": given["input_values"].transpose(1, 2)[:, None]}
        case "detr" | "vit_mae":
            return {"inputs": given["pixel_values"], "source": given["pixel_values"]}
    return {"inputs": given["pixel_values"] if "pixel_values" in given else given["input_values"][..., None]}


@pytest.mark.parametrize("change", [{}, MEDIA["gemma3n_audio"][2][1]], ids=str)
def test_padding_of_what_is_heard_in_chunks(change: dict[str, Any]) -> None:
    """A vector is padding where the first frame that it is made of is."""
    config = MEDIA["gemma3n_audio"][0] | change
    theirs, ours = copied("gemma3n_audio", "Gemma3nAudioEncoder", config)
    mel, padding = torch.rand(2, 43, 16, dtype=torch.float64), torch.arange(43)[None] >= torch.tensor([[43], [26]])
    strides = config.get("sscp_conv_stride_size", [[2, 2], [2, 2]])
    stride = strides[0][0] * strides[1][0]
    with torch.no_grad():
        expected = theirs(mel, padding).last_hidden_state
        found = ours(mel, keep=~padding[:, ::stride]).last
    assert (expected[1] == 0).all(-1).sum() > 1
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pixels", [(60, 60), (44, 70), (16, 16)])
def test_another_size_of_picture(pixels: tuple[int, int]) -> None:
    """A picture larger or smaller than the model was made for: its positions lie between the learned ones."""
    theirs, ours = copied("vit", "ViTForImageClassification", MEDIA["vit"][0])
    pictures = torch.rand(2, 3, *pixels, dtype=torch.float64)
    with torch.no_grad():
        expected = theirs(pictures, interpolate_pos_encoding=True).logits
        found = ours(pictures).heads["classifier"]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_fixed_positions_of_whisper() -> None:
    """As the model is built, before anything is copied."""
    config = MEDIA["whisper"][0]
    theirs = transformers_model("whisper", "WhisperForConditionalGeneration", config)
    ours = build(from_config({"model_type": "whisper", **config}))
    expected = theirs.model.encoder.embed_positions.weight
    torch.testing.assert_close(ours.encoder.embedding.position.weight, expected)
