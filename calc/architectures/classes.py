"""Which class a decoder's config names, and what that class has in place of the language model's head.

`architectures` of a config.json names the class that its checkpoint was saved from. Source: the public classes of
transformers 5.23, which `tests/architectures/test_classes.py` builds. Encoders, encoder-decoders and towers alone have
heads of their own, and hand their classes to `Config.architecture` themselves.
"""

from __future__ import annotations

from typing import Any, Literal

from calc.architectures.config import Config
from calc.spec import ModelSpec, Projection

Kind = Literal["lm", "bare", "sequence", "token", "token_biased", "span", "span_labels"]
"""What stands behind the layers: the head of a language model; nothing; labels of a sequence, from its last token;
labels of each token, with a bias or as the config says; both ends of a span, or as many numbers as there are labels."""

ENDINGS: dict[Kind, str] = {
    "lm": "ForCausalLM",
    "bare": "Model",
    "sequence": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "token_biased": "ForTokenClassification",
    "span": "ForQuestionAnswering",
    "span_labels": "ForQuestionAnswering",
}


ALL: tuple[Kind, ...] = ("sequence", "token", "span")
OWN: tuple[Kind, ...] = ("sequence", "token_biased", "span")
"""Classifiers of families that wrote theirs before transformers had one for all."""


def _named(prefix: str, *kinds: Kind, lm: str = "") -> dict[str, Kind]:
    """The classes of a family: its language model, which is the usual one, its bare model, and those of `kinds`.

    lm: the whole name of the language model, where it is not the prefix and the usual ending.
    """
    named: dict[str, Kind] = {lm or prefix + ENDINGS["lm"]: "lm", prefix + ENDINGS["bare"]: "bare"}
    for kind in kinds:
        named[prefix + ENDINGS[kind]] = kind
    return named


def _seeing(prefix: str, *kinds: Kind) -> dict[str, Kind]:
    """The classes of a family with pictures."""
    return _named(prefix, *kinds, lm=f"{prefix}ForConditionalGeneration")


CLASSES: dict[str, dict[str, Kind]] = {
    "gpt2": _named("GPT2", *OWN, lm="GPT2LMHeadModel"),
    "gpt-sw3": _named("GPT2", *OWN, lm="GPT2LMHeadModel"),
    "gpt_neo": _named("GPTNeo", *OWN),
    "gpt_neox": _named("GPTNeoX", *OWN),
    "gptj": _named("GPTJ", "sequence", "span_labels"),
    "opt": _named("OPT", "sequence", "span"),
    "bloom": _named("Bloom", *OWN),
    "mpt": _named("Mpt", *OWN),
    "falcon": _named("Falcon", *OWN),
    "llama": _named("Llama", *ALL),
    "diffllama": _named("DiffLlama", *ALL),
    "doge": _named("Doge", "sequence"),
    "zaya": _named("Zaya"),
    "mistral": _named("Mistral", *ALL),
    "mixtral": _named("Mixtral", *ALL),
    "jetmoe": _named("JetMoe", "sequence"),
    "qwen2": _named("Qwen2", *ALL),
    "qwen2_moe": _named("Qwen2Moe", *ALL),
    "qwen3": _named("Qwen3", *ALL),
    "qwen3_moe": _named("Qwen3Moe", *ALL),
    "mimo": _named("MiMo"),
    "gemma": _named("Gemma", "sequence", "token"),
    "gemma2": _named("Gemma2", "sequence", "token"),
    "gemma3_text": _named("Gemma3Text", "sequence", lm="Gemma3ForCausalLM"),
    "gemma3": _seeing("Gemma3", "sequence"),
    "gemma3n": _seeing("Gemma3n"),
    "gemma3n_text": _named("Gemma3nText", lm="Gemma3nForCausalLM"),
    "gemma4_text": _named("Gemma4Text", lm="Gemma4ForCausalLM"),
    "gemma4": _seeing("Gemma4"),
    "phi": _named("Phi", "sequence", "token"),
    "phi3": _named("Phi3", "sequence", "token"),
    "phimoe": _named("Phimoe", "sequence"),
    "stablelm": _named("StableLm", "sequence", "token"),
    "gpt_bigcode": _named("GPTBigCode", "sequence", "token_biased"),
    "starcoder2": _named("Starcoder2", "sequence", "token"),
    "olmo": _named("Olmo", "sequence"),
    "olmo2": _named("Olmo2", "sequence"),
    "olmo3": _named("Olmo3", "sequence"),
    "olmoe": _named("Olmoe"),
    "olmo_hybrid": _named("OlmoHybrid"),
    "flex_olmo": _named("FlexOlmo"),
    "granite": _named("Granite"),
    "hyperclovax": _named("HyperCLOVAX"),
    "granitemoe": _named("GraniteMoe"),
    "granitemoeshared": _named("GraniteMoeShared"),
    "granitemoehybrid": _named("GraniteMoeHybrid"),
    "cohere": _named("Cohere"),
    "cohere2": _named("Cohere2"),
    "dbrx": _named("Dbrx"),
    "gpt_oss": _named("GptOss", "sequence", "token"),
    "glm": _named("Glm", "sequence", "token"),
    "glm4": _named("Glm4", "sequence", "token"),
    "glm4_moe": _named("Glm4Moe"),
    "glm4_moe_lite": _named("Glm4MoeLite"),
    "glm_moe_dsa": _named("GlmMoeDsa"),
    "exaone4": _named("Exaone4", *ALL),
    "exaone_moe": _named("ExaoneMoe"),
    "smollm3": _named("SmolLM3", *ALL),
    "minicpm": _named("MiniCPM"),
    "minicpm3": _named("MiniCPM3", "sequence"),
    "ministral": _named("Ministral", *ALL),
    "ministral3": _named("Ministral3", *ALL),
    "mistral3": _seeing("Mistral3"),
    "mistral_large4": _seeing("MistralLarge4"),
    # Its language model has no class that goes on writing.
    "mistral_large4_text": {"MistralLarge4TextModel": "bare"},
    "seed_oss": _named("SeedOss", *ALL),
    "nemotron": _named("Nemotron", *ALL),
    "nemotron_h": _named("NemotronH"),
    "arcee": _named("Arcee", *ALL),
    "ernie4_5": _named("Ernie4_5"),
    "ernie4_5_moe": _named("Ernie4_5_Moe"),
    # Published under classes of its own, which transformers builds as Llama's.
    "internlm3": _named("InternLM3") | _named("Llama"),
    "hunyuan_v1_dense": _named("HunYuanDenseV1", "sequence"),
    "hunyuan_v1_moe": _named("HunYuanMoEV1", "sequence"),
    "cwm": _named("Cwm"),
    "helium": _named("Helium", "sequence", "token"),
    "vaultgemma": _named("VaultGemma"),
    "nanochat": _named("NanoChat"),
    "jais2": _named("Jais2"),
    "codegen": _named("CodeGen"),
    "openai-gpt": _named("OpenAIGPT", "sequence", lm="OpenAIGPTLMHeadModel"),
    "biogpt": _named("BioGpt", "sequence", "token_biased"),
    "xglm": _named("XGLM"),
    "persimmon": _named("Persimmon", "sequence", "token"),
    # Its language model alone has a class that goes on writing.
    "llama4": {"Llama4ForConditionalGeneration": "lm"},
    "llama4_text": _named("Llama4Text", lm="Llama4ForCausalLM"),
    "paligemma": _seeing("PaliGemma"),
    "idefics3": _seeing("Idefics3"),
    "smolvlm": _seeing("SmolVLM"),
    "internvl": _seeing("InternVL"),
    "step3p7": _seeing("Step3p7"),
    "cohere2_vision": _seeing("Cohere2Vision"),
    "aya_vision": _seeing("AyaVision"),
    "llava": _seeing("Llava"),
    "llava_next": _seeing("LlavaNext"),
    "llava_onevision": _seeing("LlavaOnevision"),
    "lfm2_vl": _seeing("Lfm2Vl"),
    "glm4v": _seeing("Glm4v"),
    "glm4v_moe": _seeing("Glm4vMoe"),
    "glm46v": _seeing("Glm46V"),
    "glm5_next": _seeing("Glm5Next"),
    # Its text alone has no class with a head.
    "glm5_next_text": {"Glm5NextTextModel": "bare"},
    "qwen2_audio": _seeing("Qwen2Audio"),
    "voxtral": _seeing("Voxtral"),
    "qwen2_vl": _seeing("Qwen2VL"),
    "qwen2_5_vl": _seeing("Qwen2_5_VL"),
    "qwen2_5_omni_thinker": _seeing("Qwen2_5OmniThinker"),
    "qwen3_omni_moe_thinker": {"Qwen3OmniMoeThinkerForConditionalGeneration": "lm"},
    # Its bare class has no projection of what it reads.
    "qwen2_5_omni_talker": {"Qwen2_5OmniTalkerForConditionalGeneration": "lm"},
    "qwen3_vl": _seeing("Qwen3VL"),
    "qwen3_vl_moe": _seeing("Qwen3VLMoe"),
    "qwen3_next": _named("Qwen3Next", *ALL),
    "qwen3_5": _seeing("Qwen3_5", "sequence", "token"),
    "qwen3_5_text": {
        **_named("Qwen3_5Text", "sequence", lm="Qwen3_5ForCausalLM"),
        "Qwen3_5ForTokenClassification": "token",
    },
    "qwen3_5_moe": _seeing("Qwen3_5Moe"),
    "qwen3_5_moe_text": _named("Qwen3_5MoeText", lm="Qwen3_5MoeForCausalLM"),
    "qwen4_exp": _seeing("Qwen4Exp"),
    "qwen4_exp_text": _named("Qwen4ExpText", lm="Qwen4ExpForCausalLM"),
    "deepseek_v2": _named("DeepseekV2", "sequence"),
    "deepseek_v3": _named("DeepseekV3", "sequence", "token"),
    "kimi_k2": _named("DeepseekV3", "sequence", "token"),
    "deepseek_v32": _named("DeepseekV32"),
    "deepseek_v4": _named("DeepseekV4"),
    "kimi_k25": _seeing("Kimi_K25"),
    "dots1": _named("Dots1"),
    "solar_open": _named("SolarOpen"),
    "afmoe": _named("Afmoe"),
    "minimax": _named("MiniMax", *ALL),
    "minimax_m2": _named("MiniMaxM2"),
    "mimo_v2_flash": _named("MiMoV2Flash"),
    # Published under a class of its own, which transformers builds as Llama's.
    "iquestcoder": _named("IQuestCoder") | _named("Llama", *ALL),
    "mistral4": _named("Mistral4", "sequence", "token"),
    "longcat_flash": _named("LongcatFlash"),
    "laguna": _named("Laguna"),
    # transformers has its layers alone; the class with a head comes with the checkpoint.
    "step3p5": {"Step3p5ForCausalLM": "lm", "Step3p7TextModel": "bare"},
    "bitnet": _named("BitNet"),
    "cohere2_moe": _named("Cohere2Moe"),
    "axk1": _named("AXK1"),
    "youtu": _named("Youtu"),
    "hy_v3": _named("HYV3"),
    "hy_v4": _named("HYV4"),
    "blt": _named("Blt"),
    "kolibri1": _named("Kolibri1"),
    "flint": _named("Flint"),
    "apertus": _named("Apertus", "token"),
    "mellum": _named("Mellum"),
    "granite_swa": _named("GraniteSWA"),
    "granitemoe_swa": _named("GraniteMoeSWA"),
    "mamba": _named("Mamba"),
    "falcon_mamba": _named("FalconMamba"),
    "mamba2": _named("Mamba2"),
    "jamba": _named("Jamba", "sequence"),
    "bamba": _named("Bamba"),
    "falcon_h1": _named("FalconH1"),
    "kimi_linear": _named("KimiLinear"),
    "bailing_hybrid": _named("BailingHybrid"),
    "zamba2": _named("Zamba2", "sequence"),
    "recurrent_gemma": _named("RecurrentGemma"),
    "rwkv": _named("Rwkv"),
    # Published by flash-linear-attention alone.
    "rwkv7": _named("RWKV7"),
    "lfm2": _named("Lfm2"),
    "lfm2_moe": _named("Lfm2Moe"),
    "lfm3": _named("Lfm3"),
}
"""Family -> class -> what it has in place of the head; the first class of each is the usual one."""

TEXT_OF = {
    family: f"{family}_text"
    for family in ("gemma3", "gemma3n", "gemma4", "glm5_next", "llama4", "qwen3_5", "qwen3_5_moe", "qwen4_exp")
}
"""Families with pictures -> that of their language model, whose classes read `text_config` alone."""


def with_class(cfg: Config, spec: ModelSpec, kind: Kind) -> ModelSpec:
    """`spec`, which describes a language model, as the class of this kind. Modules that predict further tokens belong
    to the language model, as its head does."""
    if kind == "lm":
        return spec
    heads = _narrowed(spec)
    if kind != "bare":
        labels = 2 if kind == "span" else cfg.labels()
        before: dict[str, Any] = {"d_in": heads[-1].d_out, "reads": heads[-1].name} if heads else {}
        name = "span" if kind.startswith("span") else "classifier"
        heads = (*heads, Projection(name=name, d_out=labels, bias=_biased(cfg, kind), **before))
    return spec.model_copy(update={"head": None, "mtp": None, "heads": (*spec.heads, *heads)})


def _biased(cfg: Config, kind: Kind) -> bool:
    return cfg.flag("token_classification_bias", absent=True) if kind == "token" else kind != "sequence"


def _narrowed(spec: ModelSpec) -> tuple[Projection, ...]:
    """What brings the last vectors to the width of a narrower token table (OPT-350m): the stack's, not the head's."""
    width: Any = getattr(spec.embedding, "d_embed", None)
    return () if width is None else (Projection(name="project_out", d_out=width, bias=False),)
