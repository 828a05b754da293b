"""Second names of keys: the table against transformers' config classes, and what becomes of names that no class has."""

from __future__ import annotations

from typing import Any

import pytest

transformers = pytest.importorskip("transformers")

from calc.architectures import FAMILIES, from_config  # noqa: E402
from calc.architectures.aliases import ALIASES, names_of  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameters  # noqa: E402
from tests.architectures import their_models  # noqa: E402
from tests.architectures.cases import BASES, LLAMA  # noqa: E402
from tests.architectures.cases_latent import LATENT_CASES  # noqa: E402
from tests.architectures.cases_text import BART, TEXT  # noqa: E402

# Names of tokens and of what training starts from, which no count depends on.
IRRELEVANT = {"image_token_id", "video_token_id", "audio_token_id", "boi_token_id", "eoi_token_id", "initializer_range"}
# The code of these classes renames keys itself; kimi_k2 is deepseek_v3 under a name that transformers does not have.
OF_THE_CODE = {
    "glm_moe_dsa": {"num_experts": "n_routed_experts"},
    "deepseek_v32": {"num_experts": "n_routed_experts"},
    "falcon": {"n_embed": "hidden_size"},
    "mistral_large4_text": {"num_experts": "n_routed_experts"},
    "mistral_large4.text_config": {"num_experts": "n_routed_experts"},
}
ABSENT = {
    "kimi_k2": "deepseek_v3",
    "kimi_k25.text_config": "deepseek_v3",
    "glm46v.text_config": "glm4v_moe.text_config",
    "glm46v.vision_config": "glm4v.vision_config",
    **{
        f"{family}.thinker_config.{name}": f"{family}_thinker.{name}"
        for family in ("qwen2_5_omni", "qwen3_omni_moe")
        for name in ("vision_config", "audio_config")
    },
}


def _maps() -> dict[str, dict[str, str]]:
    """What the config classes of all families, and of the sections of their configs, map."""
    found = {}
    for family in FAMILIES:
        if family not in transformers.CONFIG_MAPPING:
            continue
        cls = transformers.CONFIG_MAPPING[family]
        inner = {f"{family}.{name}": sub for name, sub in (getattr(cls, "sub_configs", None) or {}).items()}
        for name, each in {family: cls, **inner}.items():
            mapped = getattr(each, "attribute_map", {}).items()
            pairs = {key: own for key, own in mapped if key not in IRRELEVANT and key != own}
            if pairs:
                found[name] = pairs
    return found


def test_the_table_is_what_the_classes_map() -> None:
    maps = _maps()
    theirs = {name: maps.get(name, {}) | OF_THE_CODE.get(name, {}) for name in {**maps, **OF_THE_CODE}}
    theirs |= {ours: maps[same] for ours, same in ABSENT.items()}
    # Sections whose class follows from what they call themselves.
    for ours, same in (
        ("vision-encoder-decoder.decoder", "trocr"),
        ("qwen2_audio.audio_config", "qwen2_audio_encoder"),
        ("voxtral.audio_config", "voxtral_encoder"),
    ):
        theirs[ours] = transformers.CONFIG_MAPPING[same].attribute_map
    assert theirs == ALIASES


def _configs() -> list[Any]:
    """Each family that has second names, with a small config and each pair of names, one of which it has."""
    every = BASES | {name: cases[0] for name, cases in LATENT_CASES.items()}
    every |= {name: case[0] | {"architectures": [case[1][0]]} for name, case in TEXT.items()}
    return [
        pytest.param({"model_type": family, **config}, key, second, id=f"{family}-{second}")
        for family, config in every.items()
        for key in config
        for second in names_of(key, ALIASES.get(family, {}))[1:]
        if second not in config and type(config[key]) is int
    ]


@pytest.mark.parametrize(("raw", "key", "second"), _configs())
def test_two_that_are_both_given_must_agree(raw: dict[str, Any], key: str, second: str) -> None:
    """transformers takes the second name where both are there."""
    same = from_config(raw | {second: raw[key]})
    assert parameters(same) == parameters(from_config(raw))
    with pytest.raises(Refused) as caught:
        from_config(raw | {second: raw[key] + 2})
    assert {caught.value.field.split(".")[-1]} <= {key, second}


@pytest.mark.parametrize(("raw", "key", "second"), _configs())
def test_a_second_name_alone_means_what_it_means_there(raw: dict[str, Any], key: str, second: str) -> None:
    """It is refused where the class derives something of the first before it lets the second count."""
    renamed = {second if name == key else name: value for name, value in raw.items()}
    try:
        ours = from_config(renamed)
    except Refused as refused:
        assert "second name" in refused.found
        return
    if their_models.known(raw["model_type"]):
        assert sum(parameters(ours).values()) == their_models.total(their_models.build(renamed))


@pytest.mark.parametrize(
    ("model_type", "base", "foreign"),
    [
        ("mixtral", BASES["mixtral"], ("num_local_experts", "n_routed_experts")),
        ("qwen2_moe", BASES["qwen2_moe"], ("num_experts", "num_local_experts")),
        ("gpt_neo", BASES["gpt_neo"], ("max_position_embeddings", "n_positions")),
        ("llama", LLAMA, ("num_hidden_layers", "n_layers")),
        ("deepseek_v3", LATENT_CASES["deepseek_v3"][0], ("n_routed_experts", "num_experts")),
    ],
)
def test_names_of_other_families_are_refused_alone_and_named_beside(
    model_type: str, base: dict[str, Any], foreign: tuple[str, str]
) -> None:
    own, other = foreign
    alone = {key: value for key, value in base.items() if key != own} | {other: base[own]}
    with pytest.raises(Refused) as caught:
        from_config({"model_type": model_type, **alone})
    assert caught.value.field in foreign
    beside = from_config({"model_type": model_type, **base, other: 2 * base[own]})
    assert parameters(beside) == parameters(from_config({"model_type": model_type, **base}))
    assert f"{other} is ignored: this family's class reads {own}" in beside.notes


def test_a_foreign_name_that_says_what_the_default_is_may_stand() -> None:
    raw = {"model_type": "deepseek_v3", **LATENT_CASES["deepseek_v3"][0]}
    raw.pop("n_shared_experts", None)
    assert parameters(from_config(raw | {"num_shared_experts": 1})) == parameters(from_config(raw))
    with pytest.raises(Refused, match="num_shared_experts: expected n_shared_experts"):
        from_config(raw | {"num_shared_experts": 2})


WINDOWLESS = [
    ("gpt2", BASES["gpt2"]),
    ("deepseek_v3", LATENT_CASES["deepseek_v3"][0]),
    ("minicpm3", LATENT_CASES["minicpm3"][0]),
    ("bart", BART | {"architectures": ["BartForConditionalGeneration"]}),
    ("t5", TEXT["t5"][0]),
]


@pytest.mark.parametrize(("model_type", "config"), WINDOWLESS)
@pytest.mark.parametrize("key", ["sliding_window", "attention_chunk_size"])
def test_a_window_that_only_the_cache_obeys_is_refused(model_type: str, config: dict[str, Any], key: str) -> None:
    raw = {"model_type": model_type, **config}
    assert kv_cache(from_config(raw | {key: None}), 1, 11, "fp32", "cache", source=7).total_bytes > 0
    with pytest.raises(Refused) as caught:
        from_config(raw | {key: 4})
    assert caught.value.field == key
