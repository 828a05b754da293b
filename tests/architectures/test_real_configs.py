"""What published configs write that small ones do not, and what an audit of importers found to be read otherwise."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

pytest.importorskip("transformers")

from calc.architectures import from_config
from calc.errors import Refused
from calc.quantities.flops import forward
from calc.quantities.parameters import parameter_shapes, parameters
from calc.spec.load import Load
from tests.architectures import their_models
from tests.architectures.cases import LLAMA
from tests.architectures.cases_latent import LATENT_CASES
from tests.architectures.cases_recent import RECENT
from tests.architectures.cases_text import TEXT
from tests.architectures.cases_vision import KIMI
from tests.architectures.varied import CONFIGS


def total(raw: dict[str, Any]) -> int:
    return sum(parameters(from_config(raw)).values())


def same_as_transformers(raw: dict[str, Any]) -> bool:
    return total(raw) == their_models.total(their_models.build(raw))


def test_layer_types_in_older_words() -> None:
    """GLM-5.2 calls every layer deepseek_sparse_attention, which transformers renames."""
    raw = {"model_type": "glm_moe_dsa", **LATENT_CASES["glm_moe_dsa"][0]}
    raw["layer_types"] = ["deepseek_sparse_attention"] * raw["num_hidden_layers"]
    assert same_as_transformers(raw)
    raw["layer_types"] = ["sliding_attention"] * raw["num_hidden_layers"]
    with pytest.raises(Refused, match="layer_types"):
        from_config(raw)


def test_a_tower_that_calls_itself_nothing() -> None:
    """Kimi-K2.5 to K2.7: `model_type` of the tower is an empty string."""
    raw = {"model_type": "kimi_k25", **KIMI}
    plain = total(raw)
    assert total(raw | {"vision_config": raw["vision_config"] | {"model_type": ""}}) == plain


def test_kimi_without_a_width_of_its_projector() -> None:
    """transformers takes 1152 then, so that another tower would not fit its projector."""
    raw = {"model_type": "kimi_k25", **KIMI}
    del raw["projection_hidden_size"]
    with pytest.raises(Refused, match="projection_hidden_size: expected the tower's width = 32, found 1152"):
        from_config(raw)


def test_mimo_is_qwen2_with_modules_for_further_tokens() -> None:
    """Each module: a layer like the others, three norms more, and a matrix from twice the width (MiMoMTPLayers)."""
    raw = {"model_type": "mimo", **LLAMA, "num_nextn_predict_layers": 2, "architectures": ["MiMoForCausalLM"]}
    qwen2 = {"model_type": "qwen2", **LLAMA, "architectures": ["Qwen2ForCausalLM"]}
    assert total(raw) == total(qwen2)
    assert same_as_transformers(qwen2)
    spec, d = from_config(raw), LLAMA["hidden_size"]
    layer = sum(prod(shape) for path, shape in parameter_shapes(spec).items() if path.startswith("layers.0."))
    with_modules = sum(parameters(spec, mtp=True).values())
    assert with_modules - total(raw) == 2 * (layer + 3 * d + 2 * d * d)
    load = Load(batch=1, seq=8)
    assert forward(spec, load).total == forward(from_config(qwen2), load).total


def test_an_encoder_that_would_be_built_of_a_decoder_s_layers() -> None:
    raw = {"model_type": "t5", **TEXT["t5"][0], "architectures": ["T5EncoderModel"]}
    assert same_as_transformers(raw | {"is_decoder": False})
    with pytest.raises(Refused, match="is_decoder"):
        from_config(raw | {"is_decoder": True})


@pytest.mark.parametrize("model_type", ["t5", "mt5", "umt5"])
def test_layers_of_a_decoder_that_follow_from_a_second_name(model_type: str) -> None:
    """The class derives them from its own default before it reads the second name."""
    raw = {"model_type": model_type, **TEXT[model_type][0], "num_decoder_layers": None}
    assert same_as_transformers(raw | {"architectures": [f"{model_type.upper()}Model"]})
    renamed = {"num_hidden_layers" if key == "num_layers" else key: value for key, value in raw.items()}
    with pytest.raises(Refused, match="num_hidden_layers"):
        from_config(renamed)


def test_switch_says_its_step_twice() -> None:
    raw = {"model_type": "switch_transformers", **CONFIGS["switch_transformers"][0]}
    sparse = raw.get("num_sparse_encoder_layers", 3)
    step = raw["num_layers"] // sparse
    assert same_as_transformers(raw | {"encoder_sparse_step": step})
    with pytest.raises(Refused, match="encoder_sparse_step"):
        from_config(raw | {"encoder_sparse_step": step + 1})


def test_phi_s_norms_of_queries_have_the_width_that_follows() -> None:
    raw = {"model_type": "phi", **LLAMA, "head_dim": 16}
    assert same_as_transformers(raw)
    with pytest.raises(Refused, match="head_dim"):
        from_config(raw | {"qk_layernorm": True})


def test_an_odd_share_of_a_head_does_not_turn() -> None:
    with pytest.raises(Refused, match=r"rope\.fraction"):
        from_config({"model_type": "phi", **LLAMA, "head_dim": 2})


def test_a_window_of_the_token_itself_alone_is_refused() -> None:
    with pytest.raises(Refused, match="sliding_window"):
        from_config({"model_type": "mistral", **LLAMA, "sliding_window": 1})


def test_gemma3n_with_eyes_and_ears_is_counted_by_the_class_of_its_language_model() -> None:
    text = RECENT["gemma3n_text"][0]
    whole = {"model_type": "gemma3n", "text_config": text, "vision_config": {"hidden_size": 2048}, "audio_config": {}}
    ours = from_config(whole | {"architectures": ["Gemma3nForCausalLM"]})
    assert parameters(ours) == parameters(from_config({"model_type": "gemma3n_text", **text}))
    seeing = from_config(whole | {"architectures": ["Gemma3nForConditionalGeneration"]})
    assert sum(parameters(seeing).values()) > sum(parameters(ours).values()) + 294_126_912
