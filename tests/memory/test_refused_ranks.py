"""Models whose layers ranks do not divide: each is refused, and named where docs/memory.md says which are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calc.architectures import from_config
from calc.errors import Refused
from calc.memory.conditions import check
from calc.quantities.parameters import weights
from calc.spec import ModelSpec
from calc.spec.run import Run
from tests.architectures.cases_bytes import BLT
from tests.architectures.cases_latent import LATENT_CASES as LATENT
from tests.architectures.cases_recent import LARGE4_TEXT, RECENT
from tests.architectures.cases_recurrent import NGRAMS, QWEN4
from tests.architectures.cases_text import TEXT
from tests.architectures.cases_vision import FULL, GEMMA4_TEXT, SLIDING
from tests.saved.test_readings import CONFIGS

FIELDS = ("tp", "pp", "cp")
SENSES: dict[str, Any] = {"audio_config": {}, "vision_config": {}}
SPEECH = {"architectures": ["SeamlessM4Tv2ForSpeechToText"]}
GEMMA4_LENT = {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 2, "layer_types": [SLIDING, FULL] * 3}
MODELS: dict[str, tuple[ModelSpec, tuple[str, ...]]] = {
    "Swin": (from_config({"model_type": "swin"}), FIELDS),
    "SAM": (from_config({"model_type": "sam"}), FIELDS),
    "SAM 2": (from_config({"model_type": "sam2"}), FIELDS),
    "Llama 3.2 Vision": (
        from_config({"model_type": "mllama_vision_model", **CONFIGS["mllama_vision_model"], "attention_heads": 4}),
        ("pp", "cp"),
    ),
    "DiT": (from_config({"_class_name": "DiTTransformer2DModel"}), FIELDS),
    "Stable Diffusion 3": (from_config({"_class_name": "SD3Transformer2DModel"}), FIELDS),
    "FLUX.1": (from_config({"_class_name": "FluxTransformer2DModel"}), FIELDS),
    "Doge": (from_config({"model_type": "doge", **CONFIGS["doge"]}), ("tp", "cp")),
    "PatchTST": (from_config({"model_type": "patchtst"}), ("tp", "cp")),
    "ZAYA1": (from_config({"model_type": "zaya", **CONFIGS["zaya"]}), FIELDS),
    "Gemma 3n with ears": (
        from_config({"model_type": "gemma3n", "text_config": RECENT["gemma3n_text"][0]} | SENSES),
        FIELDS,
    ),
    "Gemma 3n's ears": (from_config({"model_type": "gemma3n_audio"}), FIELDS),
    "Funnel Transformer": (from_config({"model_type": "funnel"}), FIELDS),
    "BLT": (from_config({"model_type": "blt", **BLT}), FIELDS),
    "Qwen4": (from_config({"model_type": "qwen4_exp_text", **QWEN4, **NGRAMS}), ("tp", "cp")),
    "LongCat-Flash": (from_config({"model_type": "longcat_flash", **RECENT["longcat_flash"][1]}), ("pp",)),
    "Mistral Large 4": (
        from_config({"model_type": "mistral_large4_text", **LARGE4_TEXT, "kv_source_layers": [0, 0, 2, 3, 4, 5]}),
        ("pp",),
    ),
    "T5Gemma 2": (from_config({"model_type": "t5gemma2", **CONFIGS["t5gemma2"]}), ("pp", "cp")),
    "W2v-BERT 2.0": (
        from_config({"model_type": "wav2vec2-bert", **CONFIGS["wav2vec2-bert"], "add_adapter": True}),
        ("pp", "cp"),
    ),
    "SeamlessM4T": (
        from_config({"model_type": "seamless_m4t_v2", **TEXT["seamless_m4t_v2"][0], **SPEECH}),
        ("pp", "cp"),
    ),
    "Gemma 3n": (from_config({"model_type": "gemma3n_text", **RECENT["gemma3n_text"][0]}), ("pp",)),
    "Gemma 4": (from_config({"model_type": "gemma4_text", **GEMMA4_TEXT, **GEMMA4_LENT}), ("pp",)),
    "GLM-5.2": (from_config({"model_type": "glm_moe_dsa", **LATENT["glm_moe_dsa"][1]}), ("pp",)),
}
"""Model -> of two ranks each, those that are refused."""
KINDS = {
    **dict.fromkeys(("DiT", "Stable Diffusion 3", "FLUX.1"), "denoisers"),
    **dict.fromkeys(("T5Gemma 2", "SeamlessM4T"), "encoder-decoders"),
    "Gemma 3n with ears": "Gemma 3n's ears",
}
"""Model -> what the documents call models like it, where they do not name it."""


def refusals(field: str) -> str:
    """What the documents say of which models one way to divide them is refused for."""
    text = " ".join((Path(__file__).parents[2] / "docs" / "memory.md").read_text().split())
    return text.partition(f"`--{field}` above 1 is refused")[2].partition(" - `--")[0].partition(" ## ")[0]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("field", FIELDS)
def test_what_is_refused_is_in_the_list(name: str, field: str) -> None:
    spec, refused = MODELS[name]
    sizes: dict[str, Any] = {field: 2}
    run = Run(phase="training", batch=2, seq=32, micro_batches=2, **sizes)
    if field not in refused:
        check(spec, run)
        return
    with pytest.raises(Refused) as refusal:
        check(spec, run)
    assert refusal.value.field == field
    assert name in refusals(field) or KINDS.get(name, name) in refusals(field)


@pytest.mark.parametrize("family", ["swin", "swinv2"])
def test_windows_say_nothing_of_ranks_that_are_refused(family: str) -> None:
    spec = from_config({"model_type": family})
    within = [weight.shard for path, weight, _ in weights(spec) if ".attention." in path]
    assert len(within) > 4 * 4
    assert set(within) == {None}


def test_layers_that_lend_nothing_stand_on_several_stages() -> None:
    """Gemma 4 without borrowed keys and without inputs of layers, GLM-5 with an indexer in every layer."""
    alone: dict[str, Any] = {"hidden_size_per_layer_input": 0}
    run = Run(phase="training", batch=2, seq=32, micro_batches=2, pp=2)
    check(from_config({"model_type": "gemma4_text", **GEMMA4_TEXT, **alone}), run)
    check(from_config({"model_type": "glm_moe_dsa", **LATENT["glm_moe_dsa"][0]}), run)
    with pytest.raises(Refused, match="inputs of their own"):
        check(from_config({"model_type": "gemma4_text", **GEMMA4_TEXT}), run)
