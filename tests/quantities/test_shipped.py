"""What checkpoints weigh as they are published: transformers' own packed modules, published sizes, layouts by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import calc  # noqa: E402
from calc.architectures import from_config  # noqa: E402
from calc.architectures.quantization import METHODS  # noqa: E402
from calc.quantities.parameters import parameters  # noqa: E402
from calc.quantities.shipped import packed_bytes, shipped_bytes  # noqa: E402
from calc.spec.shipped import Shipped  # noqa: E402
from tests.architectures import their_models  # noqa: E402
from tests.architectures.cases import LLAMA  # noqa: E402

RAW = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **LLAMA, "attention_bias": True}
ROWS, COLUMNS = 96, 256


def shipped(config: dict[str, Any]) -> Shipped:
    how = from_config(RAW | {"quantization_config": config}).shipped
    assert how is not None
    return how


def of_matrix(config: dict[str, Any]) -> int:
    """Bytes of one matrix [96, 256]."""
    return packed_bytes(shipped(config).rules[0].packed, ROWS, COLUMNS)


@pytest.mark.parametrize(
    ("name", "gib", "total"), [("gpt-oss-20b", 12.8, 13_761_264_768), ("gpt-oss-120b", 60.8, None)]
)
def test_published_sizes(name: str, gib: float, total: int | None) -> None:
    """OpenAI 2025 (arXiv:2508.10925), table 1; and the sum of the files' tensors by their index."""
    found = sum(shipped_bytes(calc.load_model(name)).values())
    assert round(found / 2**30, 1) == gib
    assert total in (None, found)


@pytest.mark.parametrize("block", [[128, 128], [32, 48], None])
@pytest.mark.parametrize("scheme", ["dynamic", "static"])
def test_fp8_as_transformers_builds_it(block: list[int] | None, scheme: str) -> None:
    from transformers.integrations.finegrained_fp8 import replace_with_fp8_linear

    skips = ["lm_head", "model.layers.2.self_attn", "model.layers.*.mlp.down_proj"]
    config = {"weight_block_size": block, "activation_scheme": scheme, "modules_to_not_convert": skips}
    theirs = their_models.build(RAW).to(torch.bfloat16)
    parsed = transformers.FineGrainedFP8Config(**config)
    with torch.device("meta"):
        replace_with_fp8_linear(theirs, skips, parsed, pre_quantized=True)
    wide = (torch.float8_e4m3fn, torch.float32)
    expected = 0
    for path, tensor in theirs.named_parameters():
        # Biases are made in fp32 there and lie in the model's format in files.
        size = tensor.element_size() if tensor.dtype in wide and not path.endswith("bias") else 2
        expected += tensor.numel() * size
    spec = from_config(RAW | {"quantization_config": {"quant_method": "fp8", **config}})
    assert sum(shipped_bytes(spec).values()) == expected


def test_layouts_by_hand() -> None:
    """A matrix [96, 256]: elements, then what stands beside them."""
    n = ROWS * COLUMNS
    groups = ROWS * COLUMNS // 128
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    assert of_matrix(gptq) == n // 2 + 2 * groups + groups // 2 + 4 * COLUMNS
    assert of_matrix(gptq | {"bits": 3}) == n * 3 // 8 + 2 * groups + groups * 3 // 8 + 4 * COLUMNS
    assert of_matrix(gptq | {"group_size": -1}) == n // 2 + 2 * ROWS + ROWS // 2 + 4 * COLUMNS
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
    assert of_matrix(awq) == n // 2 + 2 * groups + groups // 2
    four = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    assert of_matrix(four) == n // 2 + n // 64 * 4 + 64
    twice = four | {"bnb_4bit_use_double_quant": True}
    assert of_matrix(twice) == n // 2 + n // 64 + -(-n // 64 // 256) * 4 + 64 + 1024
    assert of_matrix({"quant_method": "bitsandbytes", "load_in_8bit": True}) == n + 4 * ROWS + 1
    hqq = {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3, "group_size": 64}}}
    assert of_matrix(hqq) == -(-n // 10) * 4 + 2 * 2 * n // 64
    assert of_matrix({"quant_method": "quanto", "weights": "int8"}) == n + 2 * ROWS
    assert of_matrix({"quant_method": "quanto", "weights": "int4"}) == n // 2 + 2 * 2 * groups
    torchao = {
        "quant_method": "torchao",
        "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 32}}},
    }
    assert of_matrix(torchao) == n // 2 + 2 * 2 * n // 32
    assert of_matrix({"quant_method": "bitnet"}) == n // 4 + 2
    assert of_matrix({"quant_method": "mxfp8"}) == n + n // 32
    assert of_matrix({"quant_method": "nvfp4"}) == n // 2 + n // 16 + 4
    assert of_matrix({"quant_method": "fbgemm_fp8"}) == n + 4 * ROWS
    assert of_matrix({"quant_method": "eetq"}) == n + 2 * ROWS


def grouped(form: str, weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, **more}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }


def test_layouts_of_compressed_tensors() -> None:
    n, groups = ROWS * COLUMNS, ROWS * COLUMNS // 128
    four = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
    assert of_matrix(grouped("pack-quantized", four)) == n // 2 + 2 * groups + 16
    uneven = grouped("pack-quantized", four | {"symmetric": False, "actorder": "group"})
    assert of_matrix(uneven) == n // 2 + 2 * groups + groups // 2 + 4 * COLUMNS + 16
    eight = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
    assert of_matrix(grouped("float-quantized", eight, input_activations={"dynamic": True})) == n + 2 * ROWS
    one = eight | {"strategy": "tensor"}
    assert of_matrix(grouped("float-quantized", one, input_activations={"dynamic": False})) == n + 2 + 2
    block = eight | {"strategy": "block", "block_structure": [128, 128]}
    assert of_matrix(grouped("float-quantized", block)) == n + 2 * 1 * 2
    nv = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True}
    assert (
        of_matrix(grouped("nvfp4-pack-quantized", nv, input_activations={"dynamic": "local"})) == n // 2 + n // 16 + 8
    )


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("lm_head", 0),
        ("re:.*self_attn.*", 4 * 4),
        ("re:.*mlp\\.(gate|up)_proj$", 2 * 4),
        ("model.layers.1", 7),
        ("model.layers.1.mlp.down_proj", 1),
        ("re:model\\.layers\\.[0-9]+\\.mlp\\.down_proj", 4),
        ("k_proj", 4),
    ],
)
def test_what_a_list_leaves_out(pattern: str, left: int) -> None:
    """So many of the 28 matrices of four layers have no scales."""
    raw = LLAMA | {"model_type": "llama", "vocab_size": 64}
    forms = [
        {"quant_method": "fp8", "weight_block_size": None, "modules_to_not_convert": list(skips)}
        for skips in (("lm_head",), ("lm_head", pattern))
    ]
    sizes = [from_config(raw | {"quantization_config": form}) for form in forms]
    all_packed, some = (sum(shipped_bytes(spec).values()) for spec in sizes)
    shapes = {
        name: shape for name, shape in calc.parameter_shapes(sizes[0]).items() if len(shape) == 2 and "layers" in name
    }
    assert len(shapes) == 28
    assert (some > all_packed) == (left > 0)
    # What is left out takes a byte more an element and no scale of four bytes.
    named = [name for name in shapes if _names(pattern, name)]
    assert len(named) == left
    assert some - all_packed == sum(shapes[name][0] * shapes[name][1] - 4 for name in named)


def _names(pattern: str, path: str) -> bool:
    theirs = "model." + path.removesuffix(".weight").replace("attention", "self_attn")
    own = pattern.removeprefix("re:")
    return re.match(rf"(?:{own})(?:(?<=\.)|(?=\.|$))", theirs) is not None or theirs.endswith(own)


def test_plain_models_are_not_packed() -> None:
    spec = from_config(RAW)
    assert spec.shipped is None
    with pytest.raises(calc.Refused, match="quantization_config"):
        shipped_bytes(spec)


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "modelopt"},
        {"quant_method": 7},
        {},
        [],
        "fp8",
        {"quant_method": "gptq", "bits": 5},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        {"quant_method": "fp8", "modules_to_not_convert": [1]},
        {"quant_method": "fp8", "modules_to_not_convert": "lm_head"},
        {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}},
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "Other"}}},
    ],
)
def test_what_is_not_read_is_said_and_changes_nothing_else(config: Any) -> None:
    spec = from_config(RAW | {"quantization_config": config})
    assert spec.shipped is None
    assert any("not known" in str(note) for note in spec.notes)
    assert parameters(spec) == parameters(from_config(RAW))


@pytest.mark.parametrize("pattern", ["re:(a+)+$", "re:(.*a){20}", "re:" + ".*x" * 30, "re:[", "re:(?=a)", "re:(a", ""])
def test_patterns_that_could_take_for_ever_are_refused(pattern: str) -> None:
    spec = from_config(RAW | {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": [pattern]}})
    with pytest.raises(calc.Refused):
        shipped_bytes(spec)


def test_every_method_is_tried_here() -> None:
    tried = {"gptq", "awq", "bitsandbytes", "hqq", "quanto", "torchao", "bitnet", "eetq", "fp8", "mxfp8", "fbgemm_fp8"}
    assert set(METHODS) == tried | {"mxfp4", "nvfp4", "compressed-tensors"}
    assert set(METHODS) - {"eetq"} <= {*transformers.quantizers.auto.AUTO_QUANTIZATION_CONFIG_MAPPING, "bitsandbytes"}
