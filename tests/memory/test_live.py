"""What is live at the widest moment of a pass, against modules of transformers while they run on a CPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from calc.architectures import from_config
from calc.memory.serving import servers
from calc.spec.run import KERNELS, ExecutionName, Run

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

BATCH, SEQ = 2, 96
SIZES: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3, "vocab_size": 300} | {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "pad_token_id": 0,
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
TWO_KINDS = {"sliding_window": 40, "layer_types": ["sliding_attention", "full_attention", "full_attention"]}
LATENT = {"q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32} | {
    "num_key_value_heads": 4,
    "head_dim": 16,
}
LANGUAGE: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Mixtral": EXPERTS,
    "Qwen3": {"head_dim": 128},
    "Qwen3Moe": {"num_experts": 8, "num_experts_per_tok": 4, "moe_intermediate_size": 96},
    "Phi": {"num_key_value_heads": 4},
    "Phi3": {"bos_token_id": 1, "eos_token_id": 2},
    "Glm4": {},
    "Nemotron": {},
    "Apertus": {"intermediate_size": 1024},
    "Doge": {"keep_window_size": 60},
    "Gemma2": TWO_KINDS,
    "Gemma4": TWO_KINDS
    | {"vocab_size_per_layer_input": 300, "hidden_size_per_layer_input": 64, "global_head_dim": 32}
    | {"num_kv_shared_layers": 0},
    "GptOss": EXPERTS | TWO_KINDS,
    "DeepseekV3": LATENT
    | {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "n_group": 2, "topk_group": 1}
    | {"first_k_dense_replace": 1},
    "DeepseekV4": {"num_key_value_heads": 1, "q_lora_rank": 64, "o_groups": 2, "o_lora_rank": 32}
    | {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 96, "index_n_heads": 2}
    | {"index_head_dim": 32, "index_topk": 8, "sliding_window": 40, "qk_rope_head_dim": 16, "num_hash_layers": 0},
}
CONFIGS = {"Gemma4": "Gemma4TextConfig"}
"""Classes of configurations that are not named after the model."""


def ours(config: Any, name: str, dtype: str, execution: ExecutionName, **asked: Any) -> float:
    """Bytes of activations and logits that are counted at the widest moment, on a CPU."""
    spec = from_config(config.to_dict() | {"architectures": [name]})
    words: dict[str, Any] = {"seq": SEQ} | asked
    run = Run(batch=BATCH, dtype=dtype, mode="inference", execution=execution, device="cpu", **words)
    (rank,) = servers(spec, run)
    return max(moment["activations"] + moment["logits"] for moment in rank.moments.values())


def measured(config: Any, name: str, dtype: str, **inputs: Any) -> int:
    """Bytes live at the widest moment of a pass."""
    from tests.memory.live import Live

    model = getattr(transformers, name)(config).eval().to(torch.float32 if dtype == "fp32" else torch.bfloat16)
    with torch.no_grad(), Live(model) as live:
        model(**inputs)
    return live.peak


# PyTorch has no flash kernel for the CPU whose values are narrower than its keys, as DeepSeek's are, and none that caps
# scores or has sinks.
WRITTEN_OUT = ("Gemma2", "GptOss", "DeepseekV3", "DeepseekV4")
CASES: list[tuple[str, ExecutionName, str]] = [
    (name, execution, dtype)
    for name in LANGUAGE
    for execution in KERNELS[: 1 if name in WRITTEN_OUT else 2]
    for dtype in ("fp32", "bf16")
    # Phi has names for the parts of queries and keys that turn: a part of what it holds beside its scores.
    if (name, execution, dtype) != ("Phi", "eager", "bf16")
]


@pytest.mark.parametrize(("name", "execution", "dtype"), CASES)
def test_language_models(name: str, execution: ExecutionName, dtype: str) -> None:
    """Of prompts, and logits of the last position. Left out are routers' numbers, and with DeepSeek-V4 more is counted:
    its experts' gate is described as one that takes a product more."""
    kind = getattr(transformers, CONFIGS.get(name, f"{name}Config"))
    config = kind(**(SIZES | LANGUAGE[name]), attn_implementation=execution)
    read = {"input_ids": torch.randint(300, (BATCH, SEQ)), "use_cache": False, "logits_to_keep": 1}
    real = measured(config, f"{name}ForCausalLM", dtype, **read)
    tolerance = {"DeepseekV4": 0.065, "Qwen3Moe": 0.035}.get(name, 0.015)
    assert ours(config, f"{name}ForCausalLM", dtype, execution) == pytest.approx(real, rel=tolerance)


@pytest.mark.parametrize("execution", KERNELS[:2])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_cut_halves_have_names(execution: ExecutionName, dtype: str) -> None:
    """Step 3.5's layers alone, all dense; left out are angles of the second kind of layers, and masks."""
    config = transformers.Step3p7TextConfig(
        **(SIZES | TWO_KINDS | {"mlp_layer_types": ["dense"] * 3}), attn_implementation=execution
    )
    real = measured(config, "Step3p7TextModel", dtype, input_ids=torch.randint(300, (BATCH, SEQ)), use_cache=False)
    assert ours(config, "Step3p7TextModel", dtype, execution) == pytest.approx(real, rel=0.035)


LAID = {"n_head": 4, "n_layer": 3, "vocab_size": 300}
SHORT = LAID | {"n_embd": 128, "n_positions": 128}
FEW = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 300}
NAMING: dict[str, dict[str, Any]] = {
    "Bloom": LAID | {"hidden_size": 128},
    "CodeGen": SHORT | {"rotary_dim": 16},
    "Falcon": FEW,
    "GPT2": SHORT,
    "GPTBigCode": SHORT,
    "GPTJ": SHORT | {"rotary_dim": 16},
    "GPTNeo": {"hidden_size": 128, "num_layers": 3, "num_heads": 4, "vocab_size": 300}
    | {"attention_types": [[["global"], 3]]},
    "GPTNeoX": SIZES,
    "Mpt": {"d_model": 128, "n_layers": 3, "n_heads": 4, "vocab_size": 300},
    "OPT": FEW | {"ffn_dim": 352, "word_embed_proj_dim": 128},
    "Persimmon": SIZES,
    "StableLm": SIZES,
    "Zaya": SIZES | {"num_experts": 8, "moe_intermediate_size": 96, "router_hidden_size": 64},
}
"""Families whose modules name more than others' do, or less."""
PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
COLUMNS: tuple[tuple[ExecutionName, str], ...] = tuple(
    (how, dtype) for how in KERNELS[:2] for dtype in ("fp32", "bf16")
)


def documented() -> dict[str, list[str]]:
    """class -> percent by which more is counted, one number an execution and format, of the page's table."""
    rows = re.findall(r"^\| `(\w+)` \|" + r" (–|[+-]?[\d.]+) \|" * 4 + "$", PAGE.read_text(), re.MULTILINE)
    return {name: list(row) for name, *row in rows if name in NAMING}


@pytest.mark.parametrize("name", NAMING)
def test_families_that_name_more_are_documented(name: str) -> None:
    """By how many percent more is counted than is live at the widest moment; – where transformers has no kernel."""
    head = next(each for each in ("ForCausalLM", "LMHeadModel") if hasattr(transformers, name + each))
    written = documented()[name]
    for (execution, dtype), cell in zip(COLUMNS, written, strict=True):
        try:
            config = getattr(transformers, f"{name}Config")(**NAMING[name], attn_implementation=execution)
            read = {"input_ids": torch.randint(3, 300, (BATCH, SEQ)), "use_cache": False, "logits_to_keep": 1}
            real = measured(config, name + head, dtype, **read)
        except ValueError:
            assert cell == "–"
            continue
        found = 100 * (ours(config, name + head, dtype, execution) / real - 1)
        assert found == pytest.approx(float(cell), abs=0.2), (execution, dtype)


ENCODER = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 1024}
PICTURE = {"image_size": 64, "patch_size": 4}


@pytest.mark.parametrize("execution", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("family", ["Bert", "ViT", "Dinov2", "Wav2Vec2"])
def test_encoders(family: str, dtype: str, execution: ExecutionName) -> None:
    """Of text, of pictures, and of sound, whose convolutions make more than any layer."""
    own = {"Bert": {"vocab_size": 300}, "Wav2Vec2": {}}.get(family, PICTURE)
    config = getattr(transformers, f"{family}Config")(**ENCODER, **own, attn_implementation=execution)
    form = torch.float32 if dtype == "fp32" else torch.bfloat16
    inputs = {
        "Bert": {"input_ids": torch.randint(300, (BATCH, SEQ))},
        "Wav2Vec2": {"input_values": torch.zeros(BATCH, 16_000, dtype=form)},
    }.get(family, {"pixel_values": torch.zeros(BATCH, 3, 64, 64, dtype=form)})
    real = measured(config, f"{family}Model", dtype, **inputs)
    assert ours(config, f"{family}Model", dtype, execution) == pytest.approx(real, rel=0.005)


@pytest.mark.parametrize("norm_type", ["batchnorm", "layernorm"])
@pytest.mark.parametrize("execution", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_time_series(dtype: str, execution: ExecutionName, norm_type: str) -> None:
    """PatchTST also names the vectors of its patches as they were ahead of their positions."""
    sizes = {"d_model": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 512}
    front = {"context_length": 384, "patch_length": 4, "patch_stride": 4, "norm_type": norm_type}
    config = transformers.PatchTSTConfig(**sizes, **front, attn_implementation=execution)
    form = torch.float32 if dtype == "fp32" else torch.bfloat16
    real = measured(config, "PatchTSTModel", dtype, past_values=torch.rand(BATCH, 384, 1, dtype=form))
    vectors = BATCH * (384 // 4) * 128 * form.itemsize
    assert ours(config, "PatchTSTModel", dtype, execution) + vectors == pytest.approx(real, rel=0.005)


@pytest.mark.parametrize("execution", ["eager", "sdpa"])
def test_an_encoder_and_what_reads_it(execution: ExecutionName) -> None:
    """Whisper: 400 frames of sound, 20 tokens."""
    layers = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 3), ("ffn_dim", 512))}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "vocab_size": 300}
    sizes = {"d_model": 128, "max_source_positions": 200}
    config = transformers.WhisperConfig(**layers, **heads, **tokens, **sizes, attn_implementation=execution)
    decoded = {"decoder_input_ids": torch.zeros(BATCH, 20, dtype=torch.long), "use_cache": False}
    real = measured(config, "WhisperModel", "fp32", input_features=torch.zeros(BATCH, 80, 400), **decoded)
    assert ours(config, "WhisperModel", "fp32", execution, seq=20) == pytest.approx(real, rel=0.005)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("execution", KERNELS[:2])
@pytest.mark.parametrize(
    "change",
    [
        {"image_size": 64},
        {"image_size": 48, "hidden_size": 128, "num_hidden_layers": 9, "vision_output_dim": 768}
        | {"intermediate_layers_indices": [0, 1, 2, 5, 7]},
    ],
    ids=["in layers", "behind them"],
)
def test_pictures_in_tiles(change: dict[str, Any], execution: ExecutionName, dtype: str) -> None:
    """Names hold what every layer gives; left out are numbers of tokens, shapes and tiles."""
    from tests.architectures.cases_media import MLLAMA, TILED
    from tests.architectures.their_models import tiles

    wide = {"hidden_size": 64, "attention_heads": 4, "intermediate_size": 256, "vision_output_dim": 192}
    raw = MLLAMA | {"vision_config": TILED | wide | change}
    config = transformers.MllamaConfig(**raw, attn_implementation=execution)
    pictures = tiles(config.vision_config, "cpu", BATCH)
    pictures["pixel_values"] = pictures["pixel_values"].to(torch.float32 if dtype == "fp32" else torch.bfloat16)
    read = {"input_ids": torch.ones(BATCH, SEQ, dtype=torch.long), "use_cache": False, "logits_to_keep": 1}
    real = measured(config, "MllamaForConditionalGeneration", dtype, **read, **pictures)
    assert ours(config, "MllamaForConditionalGeneration", dtype, execution) == pytest.approx(real, abs=100)
