"""Importers: one module a family, each turning its config.json into a ModelSpec. docs/adding/family.md is how."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from calc.architectures.classes import CLASSES, TEXT_OF, with_class
from calc.architectures.config import Config, Tying
from calc.architectures.denoisers import DENOISERS
from calc.architectures.quantization import shipped
from calc.architectures.unread import refuse_unread, refuse_window
from calc.errors import Refused, show
from calc.reading.files import parse_toml, read_text
from calc.spec import ModelSpec
from calc.spec.fields import refuse

FAMILIES: dict[str, str] = {
    "gpt2": "gpt2",
    "gpt_neo": "gpt_neo",
    "gpt_neox": "gpt_neox",
    "gptj": "gptj",
    "opt": "opt",
    "bloom": "bloom",
    "mpt": "mpt",
    "falcon": "falcon",
    "llama": "llama",
    "diffllama": "diffllama",
    "doge": "doge",
    "mistral": "mistral",
    "mixtral": "mixtral",
    "jetmoe": "jetmoe",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2_moe",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3_moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3_text",
    "gemma3n_text": "gemma3n_text",
    "phi": "phi",
    "phi3": "phi3",
    "phimoe": "phimoe",
    "stablelm": "stablelm",
    "gpt_bigcode": "gpt_bigcode",
    "starcoder2": "starcoder2",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "olmo3": "olmo3",
    "olmoe": "olmoe",
    "flex_olmo": "flex_olmo",
    "granite": "granite",
    "hyperclovax": "hyperclovax",
    "granitemoe": "granitemoe",
    "granitemoeshared": "granitemoeshared",
    "cohere": "cohere",
    "cohere2": "cohere2",
    "dbrx": "dbrx",
    "gpt_oss": "gpt_oss",
    "glm": "glm",
    "glm4": "glm4",
    "exaone4": "exaone4",
    "smollm3": "smollm3",
    "minicpm": "minicpm",
    "ministral": "ministral",
    "ministral3": "ministral3",
    "mistral3": "mistral3",
    "seed_oss": "seed_oss",
    "nemotron": "nemotron",
    "arcee": "arcee",
    "ernie4_5": "ernie4_5",
    "internlm3": "internlm3",
    "hunyuan_v1_dense": "hunyuan_v1_dense",
    "cwm": "cwm",
    "helium": "helium",
    "vaultgemma": "vaultgemma",
    "nanochat": "nanochat",
    "jais2": "jais2",
    "codegen": "codegen",
    "openai-gpt": "openai_gpt",
    "gpt-sw3": "gpt2",
    "biogpt": "biogpt",
    "xglm": "xglm",
    "persimmon": "persimmon",
    "vit": "vit",
    "deit": "deit",
    "vit_msn": "vit",
    "ijepa": "ijepa",
    "vit_mae": "vit_mae",
    "dinov2": "dinov2",
    "dinov2_with_registers": "dinov2",
    "dinov3_vit": "dinov3_vit",
    "swin": "swin",
    "swinv2": "swin",
    "audio-spectrogram-transformer": "audio_spectrogram_transformer",
    "clip": "clip",
    "clip_text_model": "clip",
    "clip_vision_model": "clip",
    "siglip": "siglip",
    "siglip_text_model": "siglip",
    "siglip_vision_model": "siglip",
    "siglip2": "siglip",
    "siglip2_text_model": "siglip",
    "siglip2_vision_model": "siglip",
    "pixtral": "pixtral",
    "whisper": "whisper",
    "speech_to_text": "speech_to_text",
    "wav2vec2": "wav2vec2",
    "hubert": "wav2vec2",
    "wavlm": "wav2vec2",
    "unispeech": "wav2vec2",
    "unispeech-sat": "wav2vec2",
    "wav2vec2-conformer": "wav2vec2_conformer",
    "wav2vec2-bert": "wav2vec2_bert",
    "parakeet_ctc": "parakeet_ctc",
    "parakeet_encoder": "parakeet_ctc",
    "detr": "detr",
    "vision-encoder-decoder": "vision_encoder_decoder",
    "mllama": "mllama",
    "gemma3": "gemma3",
    "gemma3n": "gemma3n",
    "gemma4": "gemma4",
    "gemma4_text": "gemma4_text",
    "llama4": "llama4",
    "llama4_text": "llama4_text",
    "paligemma": "paligemma",
    "idefics3": "idefics3",
    "smolvlm": "idefics3",
    "internvl": "internvl",
    "cohere2_vision": "cohere2_vision",
    "aya_vision": "cohere2_vision",
    "llava": "llava",
    "llava_next": "llava_next",
    "llava_onevision": "llava_next",
    "lfm2_vl": "lfm2_vl",
    "glm4v": "glm4v",
    "glm4v_moe": "glm4v",
    "glm46v": "glm4v",
    "qwen2_audio": "qwen2_audio",
    "voxtral": "voxtral",
    "qwen2_vl": "qwen2_vl",
    "qwen2_5_vl": "qwen2_5_vl",
    "qwen2_5_omni": "qwen2_5_omni",
    "qwen2_5_omni_thinker": "qwen2_5_omni",
    "qwen2_5_omni_talker": "qwen2_5_omni",
    "qwen3_omni_moe": "qwen3_omni_moe",
    "qwen3_omni_moe_thinker": "qwen3_omni_moe",
    "qwen3_vl": "qwen3_vl",
    "qwen3_vl_moe": "qwen3_vl_moe",
    "bert": "bert",
    "megatron-bert": "bert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "xlm-roberta-xl": "roberta",
    "roberta-prelayernorm": "roberta",
    "data2vec-text": "roberta",
    "camembert": "roberta",
    "modernbert": "modernbert",
    "modernbert-decoder": "modernbert",
    "jina_embeddings_v3": "jina_embeddings_v3",
    "gte": "jina_embeddings_v3",
    "nomic_bert": "jina_embeddings_v3",
    "eurobert": "eurobert",
    "mpnet": "mpnet",
    "roformer": "roformer",
    "convbert": "convbert",
    "xlnet": "xlnet",
    "deberta": "deberta",
    "deberta-v2": "deberta",
    "distilbert": "distilbert",
    "albert": "albert",
    "electra": "electra",
    "t5": "t5",
    "mt5": "t5",
    "umt5": "t5",
    "longt5": "longt5",
    "t5gemma": "t5gemma",
    "t5gemma2": "t5gemma2",
    "esm": "esm",
    "switch_transformers": "switch_transformers",
    "bart": "bart",
    "mbart": "bart",
    "mvp": "bart",
    "led": "led",
    "longformer": "longformer",
    "big_bird": "big_bird",
    "layoutlmv3": "layoutlmv3",
    "plbart": "bart",
    "pegasus": "bart",
    "marian": "bart",
    "m2m_100": "bart",
    "nllb-moe": "bart",
    "seamless_m4t": "seamless_m4t",
    "seamless_m4t_v2": "seamless_m4t",
    "blenderbot": "bart",
    "blenderbot-small": "bart",
    "imagegpt": "imagegpt",
    "decision_transformer": "decision_transformer",
    "deepseek_v2": "deepseek_v2",
    "deepseek_v3": "deepseek_v3",
    "deepseek_v32": "deepseek_v32",
    "deepseek_v4": "deepseek_v4",
    "kimi_k2": "deepseek_v3",
    "kimi_k25": "kimi_k25",
    "kimi_linear": "kimi_linear",
    "bailing_hybrid": "bailing_hybrid",
    "minicpm3": "minicpm3",
    "glm4_moe": "glm4_moe",
    "glm4_moe_lite": "glm4_moe_lite",
    "ernie4_5_moe": "ernie4_5_moe",
    "hunyuan_v1_moe": "hunyuan_v1_moe",
    "dots1": "dots1",
    "solar_open": "solar_open",
    "exaone_moe": "exaone_moe",
    "afmoe": "afmoe",
    "glm_moe_dsa": "glm_moe_dsa",
    "minimax": "minimax",
    "minimax_m2": "minimax_m2",
    "mimo": "mimo",
    "mimo_v2_flash": "mimo_v2_flash",
    "mistral4": "mistral4",
    "laguna": "laguna",
    "bitnet": "bitnet",
    "cohere2_moe": "cohere2_moe",
    "axk1": "axk1",
    "iquestcoder": "iquestcoder",
    "youtu": "youtu",
    "hy_v3": "hy_v3",
    "hy_v4": "hy_v4",
    "mellum": "mellum",
    "apertus": "apertus",
    "kolibri1": "kolibri1",
    "flint": "flint",
    "granite_swa": "granite_swa",
    "granitemoe_swa": "granitemoe_swa",
    "mamba": "mamba",
    "falcon_mamba": "mamba",
    "mamba2": "mamba2",
    "jamba": "jamba",
    "bamba": "bamba",
    "granitemoehybrid": "granitemoehybrid",
    "falcon_h1": "falcon_h1",
    "nemotron_h": "nemotron_h",
    "recurrent_gemma": "recurrent_gemma",
    "rwkv": "rwkv",
    "rwkv7": "rwkv7",
    "zamba2": "zamba2",
    "lfm2": "lfm2",
    "lfm2_moe": "lfm2_moe",
    "lfm3": "lfm3",
    "olmo_hybrid": "olmo_hybrid",
    "qwen3_next": "qwen3_next",
    "qwen3_5": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
    "qwen3_5_moe": "qwen3_5_moe",
    "qwen3_5_moe_text": "qwen3_5_moe",
}
"""`model_type` of a config.json -> the module here that reads it. Modules are imported when asked for."""


def from_config(raw: dict[str, Any], name: str = "model", tying: Tying = "transformers") -> ModelSpec:
    """The description of the model that a decoded config.json stands for.

    tying: whose word counts where transformers ties a head that the checkpoint holds apart (T5 v1.1 and its kin).
    Errors: Refused for an unknown `model_type`, for any field that is missing, mistyped or out of range, and for a key
    that looks like a misspelt one.
    """
    if not isinstance(raw, dict):
        raise Refused("config", "an object", raw)
    if "_class_name" in raw and "model_type" not in raw:
        return _denoiser(raw, name)
    model_type = raw.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        found = show(model_type) if "model_type" in raw else "nothing"
        raise Refused("model_type", _known_families(raw), found)
    if (text := _language_model(raw, model_type)) is not None:
        return from_config(text, name, tying)
    cfg = Config(raw, tying=tying)
    if model_type != "gemma4_text":
        cfg.only("per_layer_config", None, why="layers with sizes of their own are not described")
    if "auto_map" in raw:
        cfg.notes.append("auto_map is ignored: no code that comes with a model is run")
    try:
        spec = _read(cfg, model_type)
    except ValidationError as error:
        raise refuse(error) from None
    refuse_unread(cfg)
    refuse_window(cfg, spec)
    packed = shipped(cfg)
    return spec.model_copy(update={"name": name, "family": model_type, "shipped": packed, "notes": tuple(cfg.notes)})


def _denoiser(raw: dict[str, Any], name: str) -> ModelSpec:
    """What diffusers' class of that name denoises with."""
    known, named = DENOISERS, raw["_class_name"]
    if not isinstance(named, str) or named not in known:
        raise Refused("_class_name", f"one of {', '.join(known)}", show(named))
    cfg = Config(raw, family=named)
    try:
        spec = known[named](cfg)
    except ValidationError as error:
        raise refuse(error) from None
    refuse_unread(cfg)
    return spec.model_copy(update={"name": name, "family": named, "notes": tuple(cfg.notes)})


def _read(cfg: Config, model_type: str) -> ModelSpec:
    """What the family's importer makes of the config, with the head of the class that it names."""
    module = import_module(f"calc.architectures.{FAMILIES[model_type]}")
    classes = CLASSES.get(model_type)
    if classes is None:
        return module.spec(cfg)
    kind = cfg.architecture(classes, usual=next(iter(classes)))
    return with_class(cfg, module.spec(cfg), kind)


def _language_model(raw: dict[str, Any], model_type: str) -> dict[str, Any] | None:
    """The config of the language model alone, where `architectures` of one with pictures names a class of it."""
    family, named = TEXT_OF.get(model_type), raw.get("architectures")
    if family is None or not isinstance(named, list) or len(named) != 1:
        return None
    if named[0] not in CLASSES[family] or named[0] in CLASSES[model_type]:
        return None
    text = raw.get("text_config")
    if not isinstance(text, dict):
        raise Refused("text_config", "an object", text)
    return {**text, "model_type": text.get("model_type", family), "architectures": named}


def _known_families(raw: dict[str, Any]) -> str:
    from calc.architectures.nearest import nearest

    close = nearest(raw, FAMILIES)
    such = f"; nearest: {', '.join(close)}" if close else ", such as llama"
    known = f"one of {len(FAMILIES)} known families (`models --families` lists them{such})"
    asks = "; `python -m calc report MODEL --traced` counts what transformers runs for this type"
    return known + asks * (str(raw.get("model_type")) in traceable())


@cache
def traceable() -> frozenset[str]:
    """The types that transformers has a class for, each of which `--traced` can be asked of."""
    file = Path(__file__).parents[1] / "data" / "traceable.toml"
    return frozenset(parse_toml(read_text(file), file.name)["types"])
