"""transformers' model of a config, whatever its family: what it holds, what a pass over it computes, what it caches."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any

import torch
import transformers

from calc.architectures import FAMILIES
from calc.architectures.classes import CLASSES
from harness.counter import count
from tests.architectures.headed import HEADED
from tests.architectures.renaming import named_parameters

BATCH, SEQ, SOURCE = 1, 26, 7
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
"""Some defaults lie outside a small vocabulary."""


def known(model_type: str) -> bool:
    """Whether transformers has a config class and a model class of this family."""
    return model_type in FAMILIES and model_type in transformers.CONFIG_MAPPING


def parsed(raw: dict[str, Any]) -> Any:
    """The config object that transformers makes of a decoded config.json."""
    raw = copy.deepcopy(raw)
    if isinstance(raw.get("text_config"), dict):
        raw["text_config"] = SPECIAL | raw["text_config"]
    model_type = raw.pop("model_type")
    return transformers.CONFIG_MAPPING[model_type].from_dict(SPECIAL | raw)


def class_of(raw: dict[str, Any]) -> Any:
    """The class that `architectures` names, else that of `HEADED`, else the first that we know and transformers has."""
    if not raw.get("architectures") and raw["model_type"] in HEADED:
        return HEADED[raw["model_type"]]
    named = raw.get("architectures") or [name for name in CLASSES[raw["model_type"]] if hasattr(transformers, name)]
    return getattr(transformers, named[0])


def build(raw: dict[str, Any]) -> Any:
    """The model in evaluation mode, with eager attention and experts as batched products, without memory."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        config, kind = parsed(raw), class_of(raw)
        if kind.config_class is not type(config):
            config = config.get_text_config()
        for each in (config, *(getattr(config, name) for name in getattr(config, "sub_configs", {}))):
            if each is not None:
                each._attn_implementation, each._experts_implementation = "eager", "batched_mm"
        return kind(config).eval()


SMALL = 2_000_000
"""Parameters of the largest model that is given numbers."""


def with_numbers(model: Any) -> Any:
    """The model itself on the CPU, its numbers zero but whole ones, by which some divide, one, where it is small.

    Without numbers PyTorch answers many an operation in Python, which takes several times as long, and none that asks
    for a number. A table that is shorter than what is looked up in it is noticed with numbers alone.
    """
    if total(model) <= SMALL:
        model.to_empty(device="cpu")
        with torch.no_grad():
            for each in (*model.parameters(), *model.buffers()):
                each.fill_(0 if each.is_floating_point() else 1)
    return model


def total(model: Any) -> int:
    return sum(parameter.numel() for _, parameter in named_parameters(model))


def route_evenly(model: Any) -> None:
    """Where some experts give back what they read, have every token visit as many of those that compute as it would on
    average were all as likely (LongCat-Flash)."""
    n_zero = getattr(model.config, "zero_expert_num", None)
    if not n_zero:
        return
    n, top_k = model.config.n_routed_experts, model.config.moe_topk
    computed = top_k * n // (n + n_zero)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer[:computed] = buffer[n : n + top_k - computed] = 2.0


def run(model: Any) -> tuple[int, int | None]:
    """FLOPs of a pass over tokens, and bytes of the cache that it leaves, None where it leaves none."""
    tokens = torch.full((BATCH, SEQ), 5, device=model.device)
    tokens[:, -1] = 2  # some classifiers read where the sequence ends
    inputs = {"input_ids": tokens}
    if "decoder_input_ids" in inspect.signature(model.forward).parameters and reads_two(model):
        inputs = {"input_ids": tokens[:, -SOURCE:], "decoder_input_ids": tokens}
    if model.main_input_name == "input_features":
        frames = torch.rand(BATCH, SOURCE, model.config.feature_projection_input_dim, device=model.device)
        inputs = {"input_features": frames, "decoder_input_ids": tokens}
    if model.config.model_type == "mllama":
        inputs |= tiles(model.config.vision_config, model.device)
    try:
        return _counted(model, inputs)
    except RuntimeError:
        # Some look for padding among the tokens, which have no values here, unless a mask says that there is none.
        return _counted(model, inputs | {"attention_mask": torch.ones_like(inputs["input_ids"])})


def tiles(vision: Any, device: Any, batch: int = BATCH) -> dict[str, Any]:
    """One picture for each of `batch` texts, of the last of all shapes, all of whose tiles are read."""
    shape = (batch, 1, vision.max_num_tiles)
    pixels = (vision.num_channels, vision.image_size, vision.image_size)
    return {
        "pixel_values": torch.rand(*shape, *pixels, device=device),
        "aspect_ratio_ids": torch.full(shape[:2], vision.max_aspect_ratio_id, device=device),
        "aspect_ratio_mask": torch.ones(shape, dtype=torch.long, device=device),
    }


def _counted(model: Any, inputs: dict[str, Any]) -> tuple[int, int | None]:
    found = []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flops = count(lambda: found.append(model(**inputs)))
    return flops, held(getattr(found[0], "past_key_values", None))


def reads_two(model: Any) -> bool:
    """Whether the class takes a source and a target; classifiers feed the decoder what the encoder reads."""
    return model.config.is_encoder_decoder and "SequenceClassification" not in type(model).__name__


def held(cache: Any) -> int | None:
    sides = [getattr(cache, name) for name in ("self_attention_cache", "cross_attention_cache") if hasattr(cache, name)]
    layers = [layer for side in sides or [cache] for layer in getattr(side, "layers", ())]
    if not layers:
        return None
    return sum(t.numel() * t.element_size() for layer in layers for t in _tensors(vars(layer)))


def _tensors(states: Any) -> list[Any]:
    """The tensors of floats among the values of a (nested) table or list."""
    if isinstance(states, torch.Tensor):
        return [states] if states.is_floating_point() else []
    values = states.values() if isinstance(states, dict) else states if isinstance(states, (list, tuple)) else ()
    return [tensor for value in values for tensor in _tensors(value)]
