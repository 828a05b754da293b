"""Matrices kept and gathered in fp8: a rank's bytes against tensors as Transformer Engine and torchao lay them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.memory.fp8_conditions import scalings_on  # noqa: E402
from calc.memory.totals import memory_ranks  # noqa: E402
from calc.memory.training import TrainingRank  # noqa: E402
from calc.plan.question import Question  # noqa: E402
from calc.spec import Lora  # noqa: E402
from calc.spec.catalogue import device_names, load_device  # noqa: E402
from calc.spec.clusters import load_cluster  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from calc.spec.run.narrow_weights import FP8_RECIPES  # noqa: E402
from calc.time import predict  # noqa: E402

SMALL = {"num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 512, "vocab_size": 1024}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": SMALL | {"num_attention_heads": 4, "num_key_value_heads": 2},
    "qwen3_moe": SMALL
    | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "num_experts": 4}
    | {"num_experts_per_tok": 2, "moe_intermediate_size": 256, "tie_word_embeddings": False},
    "qwen2_moe": SMALL
    | {"num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2}
    | {"moe_intermediate_size": 256, "shared_expert_intermediate_size": 512, "tie_word_embeddings": False},
}


def model(name: str) -> tuple[Any, Any]:
    """transformers' model without numbers, and our description of it."""
    config = AutoConfig.for_model(name, **CONFIGS[name])
    with torch.device("meta"):
        theirs = AutoModelForCausalLM.from_config(config)
    return theirs, from_config({"model_type": name, **CONFIGS[name]})


def matrices(theirs: Any) -> list[tuple[int, int]]:
    """Shapes of what Megatron-Core has in Transformer Engine's layers: all matrices of layers but those of routers and
    gates of shared experts, which are plain parameters there."""
    inside = [(name, each) for name, each in theirs.named_parameters() if "layers." in name and each.dim() > 1]
    shapes = [tuple(each.shape) for name, each in inside if not name.endswith("gate.weight")]
    return [shape[-2:] for shape in shapes for _ in range(shape[0] if len(shape) == 3 else 1)]


def copies(shape: tuple[int, int], recipe: str, transposed: bool = True) -> list[Any]:
    """A matrix as it lies in Transformer Engine 2 (pytorch/tensor: float8_tensor.py, float8_blockwise_tensor.py with
    blocks of 128 x 128, mxfp8_tensor.py with 32 elements along each way); scales of one number are left out."""
    m, k = shape
    data = torch.empty(m, k, dtype=torch.uint8)
    if recipe == "mxfp8":
        scales = torch.empty(m, k // 32, dtype=torch.uint8), torch.empty(m // 32, k, dtype=torch.uint8)
        return [data, *scales, torch.empty_like(data)]
    turned = torch.empty(k, m, dtype=torch.uint8)
    if recipe == "blockwise":
        scales = torch.empty(m // 128, k // 128), torch.empty(k // 128, m // 128)
        return [data, turned, *scales]
    return [data, turned] if transposed else [data]


def size(tensors: list[Any]) -> int:
    return sum(each.untyped_storage().nbytes() for each in tensors)


def held(spec: Any, **words: Any) -> TrainingRank:
    usual = {"mode": "training", "recipe": "fp8", "seq": 64, "execution": "sdpa", "zero": 1, "dp": 2}
    (found,) = memory_ranks(spec, Run(**(usual | words)))
    assert isinstance(found, TrainingRank)
    return found


@pytest.mark.parametrize("recipe", FP8_RECIPES)
@pytest.mark.parametrize("name", CONFIGS)
def test_matrices_are_kept_in_fp8_and_all_else_in_16_bits(name: str, recipe: str) -> None:
    """Embeddings, head, norms, routers and gates stay; without --fp8-param-gather weights in bf16 are beside copies."""
    theirs, spec = model(name)
    shapes = matrices(theirs)
    every = sum(each.numel() for each in theirs.parameters())
    narrow = sum(m * k for m, k in shapes)
    fp8 = sum(size(copies(shape, recipe)) for shape in shapes)
    gathered = held(spec, fp8_recipe=recipe, fp8_param_gather=True).states
    assert gathered.narrow == narrow
    assert gathered.weights == fp8 + 2 * (every - narrow)
    plain = held(spec, fp8_recipe=recipe).states
    assert plain.weights - gathered.weights == 2 * narrow
    assert (plain.gradients, plain.optimizer) == (gathered.gradients, gathered.optimizer)


def test_routers_and_gates_of_shared_experts_compute_in_16_bits() -> None:
    _, spec = model("qwen2_moe")
    found = predict(spec, "h100-sxm", phase="training", recipe="fp8", seq=64, stack="megatron-core")
    products = {
        (row.kernel.path.split(".")[-1], row.kernel.dtype) for row in found.kernels if row.kernel.function == "matmul"
    }
    wide = {name for name, dtype in products if dtype == "bf16"}
    assert wide == {"router", "shared_expert_gate", "logits"}
    assert {"q_proj", "o_proj", "gate_proj", "down_proj"} <= {name for name, dtype in products if dtype == "fp8"}


@pytest.mark.parametrize(("cluster", "transposed"), [("dgx-h100", True), ("dgx-b200", False)])
def test_blackwell_needs_no_transposed_copy(cluster: str, transposed: bool) -> None:
    theirs, spec = model("llama")
    shapes = matrices(theirs)
    rest = 2 * (sum(each.numel() for each in theirs.parameters()) - sum(m * k for m, k in shapes))
    words = {"stack": "megatron-core", "cluster": cluster, "fp8_param_gather": True, "fp8_recipe": "tensorwise"}
    fp8 = sum(size(copies(shape, "tensorwise", transposed)) for shape in shapes)
    assert held(spec, **words).states.weights == fp8 + rest
    alone = {**words, "cluster": None, "accelerator": load_cluster(cluster).gpu}
    assert held(spec, **alone).states == held(spec, **words).states


@pytest.mark.parametrize("where", [{"cluster": "dgx-b200"}, {"accelerator": "gb300"}, {"accelerator": "mi355x"}, {}])
def test_mxfp8_keeps_a_copy_along_each_way(where: dict[str, Any]) -> None:
    theirs, spec = model("llama")
    shapes = matrices(theirs)
    rest = 2 * (sum(each.numel() for each in theirs.parameters()) - sum(m * k for m, k in shapes))
    mxfp8 = sum(size(copies(shape, "mxfp8")) for shape in shapes)
    words = {"stack": "megatron-core", "fp8_param_gather": True, "fp8_recipe": "mxfp8"}
    assert held(spec, **words, **where).states.weights == mxfp8 + rest


@pytest.mark.parametrize(
    ("gpu", "words", "said"),
    [
        (
            "h200",
            {"fp8_recipe": "mxfp8"},
            "fp8_recipe: expected one of delayed, tensorwise, blockwise on h200, found mx",
        ),
        ("rtx-5090", {"fp8_recipe": "mxfp8"}, "fp8_recipe: expected one of delayed, tensorwise, blockwise on rtx-5090"),
        ("l40s", {"fp8_recipe": "blockwise"}, "fp8_recipe: expected one of delayed, tensorwise on l40s"),
        ("mi300x", {"fp8_recipe": "mxfp8"}, "fp8_recipe: expected one of delayed, tensorwise on mi300x"),
        ("mi355x", {"fp8_recipe": "blockwise"}, "fp8_recipe: expected one of delayed, tensorwise, mxfp8 on mi355x"),
        ("h200", {"stack": "megatron-core-0.18"}, "on h200, found mxfp8, the usual one of megatron-core-0.18"),
        ("a100-sxm-80gb", {}, "recipe: expected one whose products a100-sxm-80gb has, of .*, found fp8, of fp8"),
        ("a100-sxm-80gb", {"recipe": "fp8-fsdp"}, "found fp8-fsdp, of fp8"),
        ("h200", {"recipe": "nvfp4"}, "recipe: expected one whose products h200 has, of .*, found nvfp4, of fp4"),
    ],
)
def test_what_a_gpu_does_not_multiply_is_refused(gpu: str, words: dict[str, Any], said: str) -> None:
    """By memory and time alike; of no GPU all is counted."""
    _, spec = model("llama")
    assert held(spec, **words).peak > 0
    with pytest.raises(Refused, match=said):
        held(spec, accelerator=gpu, **words)
    with pytest.raises(Refused, match=said):
        predict(spec, gpu, phase="training", seq=64, **({"recipe": "fp8"} | words))


def test_all_plans_of_what_a_gpu_does_not_multiply_are_refused() -> None:
    _, spec = model("llama")
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("dgx-h100", {"fp8_recipe": "mxfp8"}, "fp8_recipe: expected one of delayed, tensorwise, blockwise on h100-sxm"),
        ("dgx-h100", {"stack": "megatron-core-0.18"}, "found mxfp8, the usual one of megatron-core-0.18"),
        ("dgx-a100", {}, "recipe: expected one whose products a100-sxm-80gb has"),
    )
    for cluster, words, said in cases:
        with pytest.raises(Refused, match=said):
            Question(spec, load_cluster(cluster), (8,), 64, 8, ("fp8",), words=words)


def test_scales_are_written_down_of_every_architecture_that_transformer_engine_runs_on() -> None:
    for name in device_names():
        device = load_device(name)
        if "fp8" in device.known_peaks and device.vendor in ("NVIDIA", "AMD"):
            found = scalings_on(device)
            assert {"delayed", "tensorwise"} <= set(found) <= set(FP8_RECIPES)
            assert set(found) < set(FP8_RECIPES) or device.fp8_block is not None
            assert device.vendor != "NVIDIA" or ("mxfp8" in found) is (device.fp8_block is not None)


def test_the_gpu_that_is_timed_is_as_that_of_its_cluster() -> None:
    timed = {"phase": "training", "recipe": "fp8", "stack": "megatron-core", "seq": 64, "checkpointing": "full"}
    _, spec = model("llama")
    of_gpu, at = (predict(spec, "b200", **timed, cluster=where).run.narrow_weights for where in (None, "dgx-b200"))
    assert of_gpu == at != predict(spec, "h200", **timed).run.narrow_weights


def test_zero_3_keeps_parts_and_gathers_layers_in_fp8() -> None:
    """Of one scale a matrix the part along rows, of MXFP8 both and all scales; a gathered layer and the next one."""
    theirs, spec = model("llama")
    shapes, dp = matrices(theirs), 4
    narrow = sum(m * k for m, k in shapes)
    rest = sum(each.numel() for each in theirs.parameters()) - narrow
    norms = 2 * 256
    for recipe, part, scales, layer in (("tensorwise", 1, 0, 2), ("mxfp8", 2, narrow // 16, 1)):
        own = held(spec, zero=3, dp=dp, fp8_recipe=recipe, fp8_param_gather=True).states
        assert own.weights == narrow // dp * part + scales + 2 * rest // dp
        assert own.unit == own.following == layer * narrow // 2 + 2 * norms
    alone = held(spec, zero=3, dp=1, fp8_param_gather=True).states
    assert (alone.weights, alone.unit) == (2 * narrow + 2 * rest, 0)
    plain = held(spec, zero=3, dp=dp).states
    assert plain.unit == 2 * (narrow // 2 + norms)


def test_fsdp2_keeps_weights_whole_and_gathers_them_in_fp8() -> None:
    """torchao/float8/fsdp_utils.py, fsdp_pre_all_gather: fp8 numbers are gathered, of fp32 that stays."""
    theirs, spec = model("llama")
    each = sum(m * k for m, k in matrices(theirs)) // 2
    words = {"recipe": "fp8-fsdp", "zero": 3}
    wide, narrow = held(spec, **words).states, held(spec, **words, fp8_param_gather=True).states
    assert wide.weights == narrow.weights
    assert wide.unit - narrow.unit == each


def test_columns_of_plans_are_as_each_plan() -> None:
    _, spec = model("qwen3_moe")
    words = {"fp8_recipe": "mxfp8", "fp8_param_gather": True, "dp": 4, "ep": 2}
    wide = held(spec, **words | {"zero": np.array([1.0, 3.0])}).states
    for place, zero in enumerate((1, 3)):
        own = held(spec, **words, zero=zero).states
        assert wide.weights[place] == own.weights
        assert wide.unit[place] == own.unit


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"recipe": "bf16-master"}, "fp8_param_gather: expected the recipe fp8 or fp8-fsdp beside it"),
        ({"recipe": "nvfp4"}, "fp8_param_gather: expected the recipe fp8 or fp8-fsdp beside it"),
        ({"zero": 0}, "zero: expected 1 or more with --fp8-param-gather"),
        ({"recipe": "fp8-fsdp", "fp8_recipe": "mxfp8"}, "fp8_recipe: expected tensorwise beside the recipe fp8-fsdp"),
        ({"stack": "hai-llm", "fp8_recipe": "mxfp8"}, "fp8_recipe: expected none under hai-llm"),
        ({"stack": "hai-llm"}, "stack: expected with --fp8-param-gather one of fsdp2, megatron-core"),
        ({"offload": "optimizer", "fp8_recipe": "mxfp8"}, "fp8_recipe: expected delayed with --fp8-param-gather"),
        ({"fp8_recipe": "rowwise"}, "fp8_recipe: expected one of delayed, tensorwise"),
        ({"recompute": ("moe_act",), "fp8_recipe": "delayed"}, "fp8_recipe: expected tensorwise, or another but"),
    ],
)
def test_what_does_not_go_with_it_is_refused(words: dict[str, Any], expected: str) -> None:
    _, spec = model("qwen3_moe")
    with pytest.raises(Refused, match=expected):
        held(spec, **{"fp8_param_gather": True} | words)


@pytest.mark.parametrize(
    ("recipes", "words", "expected"),
    [
        (("bf16-master",), {"fp8_param_gather": True}, "fp8_param_gather: expected the recipe fp8"),
        (("fp8",), {"fp8_param_gather": True, "stack": "hai-llm"}, "stack: expected with --fp8-param-gather"),
        (("bf16-fsdp",), {"precision_aware": True, "stack": "torchtitan"}, "stack: expected with --precision-aware"),
    ],
)
def test_no_plan_is_searched_that_none_can_have(recipes: Any, words: dict[str, Any], expected: str) -> None:
    _, spec = model("llama")
    with pytest.raises(Refused, match=expected):
        Question(spec, load_cluster("dgx-h100"), (8,), 64, 8, recipes, words=words)


def test_no_plan_is_searched_with_a_scaling_that_its_modules_refuse() -> None:
    _, spec = model("qwen3_moe")
    place, words = load_cluster("dgx-h100"), {"fp8_recipe": "delayed", "stack": "megatron-core"}
    with pytest.raises(Refused, match="fp8_recipe: expected tensorwise, or another but delayed"):
        Question(spec, place, (8,), 64, 8, ("fp8",), fixed={"recompute": ("moe_act",)}, words=words)
    Question(spec, place, (8,), 64, 8, ("fp8",), fixed={"recompute": ("moe",)}, words=words)


@pytest.mark.parametrize("words", [{"fp8_param_gather": True}, {"fp8_recipe": "mxfp8"}])
def test_what_scales_in_training_changes_no_pass_of_a_server(words: dict[str, Any]) -> None:
    _, spec = model("llama")
    for phase in ("prefill", "decode"):
        said, plain = (predict(spec, "h100-sxm", phase=phase, seq=64, context=64, **more) for more in (words, {}))
        assert plain.seconds == said.seconds > 0


def test_adapters_are_refused() -> None:
    _, spec = model("llama")
    adapted = spec.model_copy(update={"adapter": Lora(rank=4, targets=("q_proj",))})
    with pytest.raises(Refused, match="fp8_param_gather: expected none beside an adapter"):
        held(adapted, fp8_param_gather=True)
