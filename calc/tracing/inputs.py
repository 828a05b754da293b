"""What a model of transformers is given: by the names of its forward pass's arguments, and the sizes of its config."""

from __future__ import annotations

import inspect
from typing import Any

from calc.errors import Refused
from calc.spec.load import Load
from calc.tracing.building import one_line

BINS = ("num_mel_bins", "feature_size", "input_feat_per_channel", "feature_projection_input_dim")
"""What a frame of sound has numbers of, by the names that families have for it."""
TOKENS = ("input_ids", "decoder_input_ids")


def sections(config: Any) -> list[Any]:
    """A config and the configs in it, outermost first."""
    inner = [value for value in vars(config).values() if hasattr(value, "to_dict")]
    return [config, *(each for section in inner for each in sections(section))]


def size(config: Any, *names: str, default: Any = None) -> Any:
    """The first of some keys that any section has. Errors: Refused for one that transformers gives by layer alone."""
    for name in names:
        for section in sections(config):
            try:
                value = getattr(section, name, None)
            except Exception as error:  # transformers' own kind, for keys that differ from layer to layer
                raise Refused(name, "one number for all layers", one_line(error)) from None
            if value is not None:
                return value
    return default


def arguments(module: Any) -> dict[str, inspect.Parameter]:
    """The arguments of a module's forward pass, by name."""
    return dict(inspect.signature(module.forward).parameters)


def reads_tokens(module: Any) -> bool:
    return "input_ids" in arguments(module) and getattr(module, "main_input_name", "input_ids") == "input_ids"


def stretches(module: Any) -> bool:
    """Whether what a module is given is as long as is asked. Errors: Refused as `inputs_for` has it."""
    import torch

    with torch.device("meta"):
        one, other = (inputs_for(module, Load(batch=1, seq=seq)) for seq in (16, 32))
    return any(getattr(value, "shape", None) != getattr(other[name], "shape", None) for name, value in one.items())


def inputs_for(module: Any, load: Load) -> dict[str, Any]:
    """Tensors for one pass, made where it is called: each argument that has to be given, and the main one.

    Errors: Refused for an argument whose shape is not known here.
    """
    import torch

    config, known = module.config, arguments(module)
    batch, seq = int(load.batch), int(load.seq)
    source = int(load.source or load.usual_source or seq)
    two = bool(getattr(config, "is_encoder_decoder", False))
    main = getattr(module, "main_input_name", "input_ids")
    wanted = [n for n, p in known.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    wanted += [main] if main in known and main not in wanted else []
    if two and "decoder_input_ids" in known and "decoder_input_ids" not in wanted:
        wanted.append("decoder_input_ids")
    if hasattr(config, "vision_config") and hasattr(config, "text_config") and "pixel_values" in known and two is False:
        both = not hasattr(config, "image_token_id") and not hasattr(config, "image_token_index")
        wanted += ["pixel_values"] if both and "pixel_values" not in wanted else []
    wanted += ["bbox"] if "bbox" in known and "bbox" not in wanted else []
    made: dict[str, Any] = {}
    for name in dict.fromkeys(wanted):
        length = source if two and name in ("input_ids", "attention_mask") else seq
        made[name] = _made(torch, name, config, batch, length)
    if "use_cache" in known:
        made["use_cache"] = False
    if "return_dict" in known:
        made["return_dict"] = True
    return made


def _made(torch: Any, name: str, config: Any, batch: int, seq: int) -> Any:
    if name in TOKENS:
        return torch.ones(batch, seq, dtype=torch.long)
    if name in ("attention_mask", "decoder_attention_mask"):
        return torch.ones(batch, seq, dtype=torch.long)
    if name == "bbox":
        return torch.zeros(batch, seq, 4, dtype=torch.long)
    try:
        if name in ("pixel_values", "pixel_values_videos"):
            return torch.empty(_picture(config, batch, name), dtype=_format(config))
        if name == "input_features":
            bins = size(config, *BINS)
            frames = size(config, "max_source_positions", default=None)
            first = (bins, 2 * frames) if frames and config.model_type == "whisper" else (seq, bins)
            return torch.empty((batch, *first), dtype=_format(config))
        if name in ("input_values", "audio_values"):
            length = size(config, "max_length")
            bins = size(config, "num_mel_bins")
            if bins and length and hasattr(config, "frequency_stride"):
                return torch.empty((batch, length, bins), dtype=_format(config))
            if hasattr(config, "audio_channels"):
                return torch.empty((batch, config.audio_channels, 16_000), dtype=_format(config))
            return torch.empty((batch, 16_000), dtype=_format(config))
        if name == "inputs_embeds":
            return torch.empty((batch, seq, size(config, "hidden_size")), dtype=_format(config))
        if name == "past_values":
            channels = size(config, "num_input_channels", "input_size", default=1)
            length = size(config, "context_length", "prediction_length")
            return torch.empty((batch, length, channels), dtype=_format(config))
    except (TypeError, AttributeError, RuntimeError) as error:
        raise Refused(name, "a shape that follows from the config", one_line(error)) from None
    raise Refused("--traced", "a model whose inputs' shapes follow from its config", f"an input called {name}")


def _format(config: Any) -> Any:
    """Format of what is not tokens: that of the weights, which `model.py` notes in the config."""
    return config.dtype


def _picture(config: Any, batch: int, name: str) -> tuple[int, ...]:
    given = size(config, "image_size", "img_size", "input_image_size", default=224)
    if isinstance(given, dict):
        given = given["height"], given["width"]
    height, width = (given, given) if isinstance(given, int) else tuple(given)[:2]
    channels = size(config, "num_channels", "in_channels", "in_chans", default=3)
    frames = size(config, "num_frames", "frames_per_clip")
    if frames and ("video" in name or hasattr(config, "tubelet_size")):
        return batch, frames, channels, height, width
    return batch, channels, height, width
