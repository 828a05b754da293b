"""Gradients summed in another format than the recipe's: a rank's bytes against PyTorch's own tensors and arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import calc
from calc.errors import Refused
from calc.memory.stepping import moved_by_copies
from calc.memory.training import TrainingRank, ranks
from calc.spec import ModelSpec
from calc.spec.run import Run

GPT2 = calc.load_model("gpt2")
N = int(calc.estimate(GPT2, "params").value)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
WIDTHS = {"fp32": 4, "bf16": 2}


def rank(**words: Any) -> TrainingRank:
    run = Run(phase="training", seq=64, execution="sdpa", **words)
    (only,) = ranks(GPT2, run.load(), run)
    return only


@pytest.mark.parametrize("format", DTYPES)
def test_the_step_of_megatron_s_optimizer_holds_what_torch_does(format: str) -> None:
    """Weights in bf16, one buffer of gradients, and a copy of both in fp32 that AdamW steps with: of a buffer in fp32
    `.float()` copies nothing (megatron/core/optimizer/optimizer.py, _copy_model_grads_to_main_grads)."""
    elements = 1000
    weights, buffer = torch.ones(elements, dtype=torch.bfloat16), torch.ones(elements, dtype=DTYPES[format])
    master = torch.nn.Parameter(weights.float())
    master.grad = buffer.float()
    adamw = torch.optim.AdamW([master])
    adamw.step()
    moments = [each for each in adamw.state[master].values() if each.numel() == elements]
    held = {each.untyped_storage().data_ptr(): each for each in (weights, buffer, master, master.grad, *moments)}
    each = sum(tensor.untyped_storage().nbytes() for tensor in held.values()) / elements
    found = rank(stack="megatron-core", gradient_dtype=format).timeline["optimizer step"]
    assert found == each * N
    assert found == (2 + WIDTHS[format] + 4 + 8 + 4 * (format == "bf16")) * N


@pytest.mark.parametrize("format", DTYPES)
def test_a_precision_aware_step_holds_no_copy_of_gradients_and_half_a_copy_of_weights(format: str) -> None:
    """Transformer Engine's FusedAdam steps with the buffer itself, and keeps of weights in fp32 the 16 bits that those
    in bf16 lack (store_param_remainders, pytorch/optimizers/fused_adam.py); torch puts them together again."""
    whole = torch.tensor([1.0 + 2.0**-20, -3.0 + 2.0**-18, 0.1])
    bits = whole.view(torch.int32)
    weights, remainder = (bits >> 16).to(torch.int16).view(torch.bfloat16), (bits & 0xFFFF).to(torch.int16)
    joined = (weights.view(torch.int16).to(torch.int32) << 16) | (remainder.to(torch.int32) & 0xFFFF)
    assert torch.equal(joined.view(torch.float32), whole)
    moments = [torch.zeros_like(whole) for _ in range(2)]
    buffer = torch.zeros(3, dtype=DTYPES[format])
    each = sum(tensor.element_size() for tensor in (weights, remainder, buffer, *moments))
    found = rank(stack="megatron-core", gradient_dtype=format, precision_aware=True)
    assert found.timeline["optimizer step"] == each * N
    assert each == 2 + 2 + WIDTHS[format] + 8


@pytest.mark.parametrize(
    ("words", "copied", "kept"),
    [
        ({"recipe": "fp8", "fp8_recipe": "delayed"}, "none", 2),
        ({"recipe": "fp8", "fp8_recipe": "tensorwise"}, "beside", 4),
        ({"recipe": "fp8", "fp8_recipe": "delayed", "fp8_param_gather": True}, "none", 4),
        ({"recipe": "bf16-master", "zero": 3}, "none", 4),
    ],
)
def test_which_copies_are_kept_beside_fp8(words: dict[str, Any], copied: str, kept: int) -> None:
    """megatron/core/optimizer/optimizer_config.py, use_precision_aware_optimizer_no_fp8_or_ds_fp8: Megatron-Core keeps
    weights in fp32 itself but with delayed scaling; Megatron-FSDP always."""
    usual = {"stack": "megatron-core", "dp": 2, "zero": 1, "precision_aware": True, "gradient_dtype": "bf16"}
    found = rank(**(usual | words))
    assert found.run.gradient_copy == copied
    assert found.states.optimizer == (kept + 8) * N / 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"stack": "torchtitan"}, "stack: expected with --precision-aware one of megatron-core"),
        ({"optimizer": "lion"}, "optimizer: expected adamw or adamw-bf16"),
        ({"recipe": "fp32"}, "recipe: expected one with a wider copy"),
        ({"dp": 2, "zero": 0}, "zero: expected 1 or more with --precision-aware"),
    ],
)
def test_what_a_precision_aware_optimizer_does_not_go_with_is_refused(words: dict[str, Any], expected: str) -> None:
    with pytest.raises(Refused, match=expected):
        rank(**({"stack": "megatron-core", "precision_aware": True} | words))


def test_moments_in_bf16_are_of_a_precision_aware_optimizer_which_ranks_divide() -> None:
    """megatron/core/optimizer/optimizer_config.py, __post_init__; one rank has nothing to divide."""
    words: dict[str, Any] = {"stack": "megatron-core", "recipe": "bf16-master", "optimizer": "adamw-bf16"}
    with pytest.raises(Refused, match="zero: expected 1 or more with moments in bf16 under megatron-core, or --opt"):
        rank(**words, dp=2)
    assert rank(**words, dp=2, zero=1).states.optimizer == (2 + 4) * N / 2
    assert rank(**words).states.optimizer == (2 + 4) * N
    assert rank(**(words | {"stack": "fsdp2"}), dp=2).states.optimizer == (4 + 4) * N


def laid_flat(format: str) -> int:
    """Most bytes an element while DeepSpeed's ZeRO-2 steps with gradients of a rank's part, beside its weights and
    moments: all laid flat, widened, and freed (deepspeed/runtime/zero/stage_1_and_2.py, step)."""
    averaged = [torch.ones(250, dtype=DTYPES[format]) for _ in range(4)]
    master = torch.nn.Parameter(torch.ones(1000))
    most = [sum(map(_size, averaged))]
    flat = torch._utils._flatten_dense_tensors(averaged)
    master.grad = flat.to(master.dtype)
    most.append(most[0] + sum({each.data_ptr(): _size(each) for each in (flat, master.grad)}.values()))
    del averaged, flat
    torch.optim.AdamW([master], fused=True).step()
    most.append(_size(master.grad))
    return max(most) // 1000


def _size(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


LLAMA, TABLE = calc.load_model("llama-3-8b"), 128256 * 4096
MIXTRAL = calc.load_model("mixtral-8x7b")


def stepped(spec: ModelSpec, **words: Any) -> TrainingRank:
    """A rank of DeepSpeed's."""
    run = Run(phase="training", seq=64, execution="sdpa", stack="deepspeed", **words)
    return ranks(spec, run.load(), run)[0]


@pytest.mark.parametrize("format", DTYPES)
def test_the_step_of_deepspeed_s_optimizer_holds_what_torch_does(format: str) -> None:
    n = int(calc.estimate(LLAMA, "params").value)
    found = stepped(LLAMA, dp=4, zero=2, gradient_dtype=format).timeline["optimizer step"]
    assert found == 2 * n + (12 + laid_flat(format)) * n / 4


@pytest.mark.parametrize(
    ("words", "each"),
    [
        ({"zero": 0, "dp": 4}, 4 + 4),
        ({"zero": 1, "dp": 2}, 6 / 2 - 2 / 2),
        ({"zero": 2, "dp": 2}, 6 / 2),
        ({"zero": 2, "dp": 2, "optimizer": "adamw-foreach"}, 6 / 2),
        ({"zero": 1, "dp": 1}, 6),
    ],
)
def test_deepspeed_frees_what_other_ranks_step_with_first(words: dict[str, Any], each: float) -> None:
    """Without ZeRO every gradient is widened by itself before all are laid flat (fp16/fused_optimizer.py)."""
    assert stepped(LLAMA, **words).states.update == each * int(calc.estimate(LLAMA, "params").value)


@pytest.mark.parametrize(("zero", "dp", "shared"), [(1, 4, 1), (2, 64, 1), (3, 64, 64)])
def test_the_norm_of_a_gradient_is_taken_in_fp64(zero: int, dp: int, shared: int) -> None:
    """Of a table whole, or of a rank's part of it: more than what is laid flat where many ranks share that."""
    n = int(calc.estimate(LLAMA, "params").value)
    assert stepped(LLAMA, dp=dp, zero=zero).states.update == max(
        8 * min(TABLE / shared, n / dp), 6 * n / dp * (zero > 1)
    )


@pytest.mark.parametrize(("optimizer", "each"), [("adamw", 6), ("adamw-foreach", 8)])
def test_zero_3_of_deepspeed_steps_through_a_billion_parameters_at_a_time(optimizer: str, each: int) -> None:
    """`sub_group_size`: of Llama 3 70B on 8 ranks each has 8.8 billion. Its narrow gradients are views of a buffer that
    stays (zero/stage3.py, grad_partitions_flat_buffer), beside a widened copy and torch's temporaries, 4 bytes each."""
    spec = calc.load_model("llama-3-70b")
    assert stepped(spec, dp=8, zero=3, optimizer=optimizer).states.update == each * 10**9
    assert stepped(MIXTRAL, dp=8, zero=3, optimizer=optimizer).states.update == each * int(
        min(calc.estimate(MIXTRAL, "params").value / 8, 10**9)
    )


def test_experts_on_other_ranks_are_stepped_with_by_themselves() -> None:
    """Mixtral's, whole on every rank, go with all else; one a rank is more than the rest of it in eight parts."""
    n = int(calc.estimate(MIXTRAL, "params").value)
    experts = 32 * 3 * 4096 * 14336
    assert stepped(MIXTRAL, dp=8, zero=2).states.update == 6 * n / 8
    assert stepped(MIXTRAL, dp=8, zero=2, ep=8).states.update == 6 * experts
    both = stepped(MIXTRAL, dp=8, zero=2, ep=np.array([1, 8])).states.update
    assert list(both) == [6 * n / 8, 6 * experts]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"dp": 4, "zero": 1, "gradient_dtype": "fp32"}, "2 or more with gradients in fp32 under --stack deepspeed"),
        ({"pp": 2}, "1 in a pipeline under --stack deepspeed"),
        ({"pp": 2, "dp": 4, "zero": 2}, "1 in a pipeline under --stack deepspeed"),
    ],
)
def test_optimizers_of_deepspeed_that_are_not_described_are_refused(words: dict[str, Any], expected: str) -> None:
    with pytest.raises(Refused) as error:
        stepped(LLAMA, **words)
    assert (error.value.field, error.value.expected) == ("zero", expected)


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        ({"gradient_dtype": "bf16"}, (2 + 2 + 4 + 4) + (2 + 8 + 8) + 8 + 4),
        ({"gradient_dtype": "fp32"}, 8 + (4 + 8 + 8) + 8 + 4),
        ({"zero": 0}, 16 + 4 + 8 + 4),
    ],
)
def test_what_copies_of_gradients_move(words: dict[str, Any], moved: int) -> None:
    """Each copy is written and read once more: laid flat and widened, laid flat alone, widened and laid flat. Then the
    norm, what clips, and weights that are copied back."""
    run = Run(phase="training", seq=64, stack="deepspeed", **{"dp": 4, "zero": 2} | words)
    assert moved_by_copies(run) == moved


@pytest.mark.parametrize("format", DTYPES)
@pytest.mark.parametrize("zero", [1, 2])
def test_one_buffer_is_what_micro_batches_and_ranks_are_summed_in(format: str, zero: int) -> None:
    """Megatron-Core's and DeepSpeed's: each rank's whole gradients, or from ZeRO-2 on its part."""
    for stack, recipe in (("megatron-core", "fp8"), *[("deepspeed", "bf16-zero")] * (zero == 2 or format == "bf16")):
        own = rank(stack=stack, recipe=recipe, dp=8, zero=zero, gradient_dtype=format).states
        assert own.gradients == WIDTHS[format] * (N if zero == 1 else N / 8)


def test_what_fsdp2_keeps_is_as_wide_as_weights() -> None:
    """reduce_dtype is of what ranks send, and each casts its part to the format of the weights; a pipeline that sums
    before it sends sums in that format."""
    for pp in (1, 2):
        run = Run(phase="training", seq=64, dp=8, pp=pp, zero=2, recipe="bf16-fsdp")
        wide, narrow = (ranks(GPT2, each.load(), each)[0].states for each in (run, run.changed(gradient_dtype="bf16")))
        assert wide.gradients == narrow.gradients
        assert wide.reduced == pytest.approx(narrow.reduced * (2 + 4) / (2 + 2))
        if pp > 1:
            assert wide.waiting == narrow.waiting * WIDTHS["fp32"] / WIDTHS["bf16"]
        else:
            assert wide.waiting == narrow.waiting


@pytest.mark.parametrize("recipe", ["fp32", "bf16-mixed", "fp16-mixed"])
def test_gradients_that_autograd_makes_are_as_wide_as_weights(recipe: str) -> None:
    with pytest.raises(Refused, match=f"gradient_dtype: expected fp32 beside the recipe {recipe}"):
        Run(phase="training", recipe=recipe, gradient_dtype="bf16")
    with pytest.raises(Refused, match="gradient_dtype: expected bf16 beside the recipe bf16"):
        Run(phase="training", recipe="bf16", gradient_dtype="fp32")


@pytest.mark.parametrize("stack", ["megatron-core", "pytorch"])
def test_buffers_of_gradients_are_there_from_the_first_micro_batch_on(stack: str) -> None:
    """Megatron-Core allocates buffers of all gradients once: one micro-batch needs as much as several, and at its loss
    the gradients stand beside what layers keep; PyTorch alone has none then."""
    one, two = (rank(stack=stack, dp=2, batch=2, micro_batches=number) for number in (1, 2))
    buffers = stack == "megatron-core"
    assert (one.timeline["loss"] == two.timeline["loss"]) is buffers
    assert (one.peak == two.peak) is buffers
    assert two.timeline["loss"] - one.timeline["loss"] == (0 if buffers else one.terms["gradients"])
