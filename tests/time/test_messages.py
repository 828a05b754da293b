"""How many bytes ranks tell each other in a step, and what the optimizer moves, against arithmetic by hand."""

from __future__ import annotations

from typing import Any

import pytest

import calc
from calc.time import predict

OPS = ("reduce_scatter", "all_gather")


def sent(model: str, **plan: Any) -> dict[str, float]:
    """Path of every message and of the optimizer -> bytes of all of its calls in a step, of one rank."""
    found = predict(calc.load_model(model), "h100-sxm", phase="training", **plan)
    names = [row.kernel for row in found.kernels if row.kernel.component in ("network", "optimizer")]
    total: dict[str, float] = {}
    for kernel in names:
        name = f"{kernel.path} {kernel.function}"
        total[name] = total.get(name, 0.0) + kernel.bytes * kernel.calls
    return total


EXPERTS = 32 * 8 * 3 * 4096 * 14336
"""Elements of Mixtral's experts; 1,605,636,096 are its other parameters."""
REST = 46_702_792_704 - EXPERTS


def test_experts_spread_over_ranks_and_the_rest_are_reduced_apart() -> None:
    """64 ranks, experts over 8 of them: all 64 hold the rest, 8 the same experts."""
    assert REST == 1_605_636_096
    plan = {"cluster": "dgx-h100", "dp": 64, "ep": 8, "seq": 512, "zero": 1, "checkpointing": "full"}
    found = sent("mixtral-8x7b", recipe="bf16-mixed", **plan)
    assert found["data reduce_scatter"] == pytest.approx(4 * REST)
    assert found["data of experts reduce_scatter"] == pytest.approx(4 * EXPERTS / 8)
    assert found["data of experts all_gather"] == pytest.approx(4 * EXPERTS / 8)
    whole = sent("mixtral-8x7b", recipe="bf16-mixed", **plan | {"ep": 1})
    assert whole["data reduce_scatter"] == pytest.approx(4 * (REST + EXPERTS))
    assert "data of experts reduce_scatter" not in whole


@pytest.mark.parametrize(
    ("recipe", "zero", "stack", "less"),
    [("bf16-master", 1, None, 2), ("bf16-master", 1, "megatron-core", 2 - 8), ("bf16-fsdp", 3, None, 0)],
)
def test_gradients_are_sent_in_the_format_that_is_said(recipe: str, zero: int, stack: str | None, less: int) -> None:
    """Half the bytes; the optimizer reads what is kept (`less` bytes a parameter fewer), which FSDP2 casts back.
    Megatron-Core's writes a copy in fp32 of what is narrower and reads that in its place, 8 bytes more."""
    plan = {"cluster": "dgx-h100", "dp": 8, "seq": 512, "zero": zero, "recipe": recipe, "checkpointing": "full"}
    words = plan if stack is None else plan | {"stack": stack}
    narrow, wide = sent("llama-3-8b", gradient_dtype="bf16", **words), sent("llama-3-8b", **words)
    assert 2 * narrow["data reduce_scatter"] == wide["data reduce_scatter"]
    assert narrow["data all_gather"] == wide["data all_gather"]
    assert wide["optimizer adamw"] - narrow["optimizer adamw"] == pytest.approx(less * 8_030_261_248 / 8)


def test_a_precision_aware_optimizer_moves_no_copies() -> None:
    """Of bf16 gradients 8 bytes less, and 2 of weights in bf16 that are half of what it updates."""
    plan = {"cluster": "dgx-h100", "dp": 8, "seq": 512, "zero": 1, "recipe": "bf16-zero", "checkpointing": "full"}
    plain, aware = (sent("llama-3-8b", stack="megatron-core", precision_aware=on, **plan) for on in (False, True))
    assert plain["optimizer adamw"] - aware["optimizer adamw"] == pytest.approx(10 * 8_030_261_248 / 8)


NARROW = 8_030_261_248 - 2 * 128_256 * 4096 - 65 * 4096
"""Elements of Llama 3 8B's matrices in layers: all but its two tables and its norms."""


@pytest.mark.parametrize(
    ("words", "narrower"),
    [
        ({"recipe": "fp8", "zero": 1, "fp8_recipe": "tensorwise"}, 1),
        ({"recipe": "fp8", "zero": 1, "fp8_recipe": "mxfp8"}, 0),
        ({"recipe": "fp8", "zero": 3, "fp8_recipe": "mxfp8"}, 2),
        ({"recipe": "fp8-fsdp", "zero": 3}, 2),
    ],
)
def test_matrices_are_gathered_in_fp8(words: dict[str, Any], narrower: int) -> None:
    """A byte of each element less, once a step or (ZeRO-3) forward and back; MXFP8 is cast after bf16 was gathered.
    The optimizer writes what is gathered; FSDP2's writes what it keeps."""
    plan = {"cluster": "dgx-b200", "dp": 8, "seq": 512, "checkpointing": "none", **words}
    plain, narrow = sent("llama-3-8b", **plan), sent("llama-3-8b", **plan, fp8_param_gather=True)
    assert plain["data all_gather"] - narrow["data all_gather"] == pytest.approx(narrower * NARROW)
    assert plain["data reduce_scatter"] == narrow["data reduce_scatter"]
    written = narrower if words["zero"] == 1 else 0
    assert plain["optimizer adamw"] - narrow["optimizer adamw"] == pytest.approx(written * NARROW / 8)


@pytest.mark.parametrize(
    ("model", "plan", "stepped"),
    [
        ("mixtral-8x7b", {"ep": 8}, REST / 64 + EXPERTS / 64),
        ("mixtral-8x7b", {"ep": 64, "zero": 0}, None),
        ("llama-3-8b", {"zero": 3, "shard": 8}, 8_030_261_248 / 8),
        ("llama-3-8b", {"zero": 1}, 8_030_261_248 / 64),
        ("llama-3-8b", {"zero": 0}, 8_030_261_248),
    ],
)
def test_the_optimizer_steps_through_what_zero_leaves_of_a_rank(
    model: str, plan: dict[str, Any], stepped: float | None
) -> None:
    """fp32 weights, gradients and two moments: weights and moments read and written, gradients read, 28 bytes each."""
    words = {"cluster": "dgx-h100", "dp": 64, "seq": 512, "zero": 1, "recipe": "bf16-mixed"} | plan
    if stepped is None:
        with pytest.raises(calc.Refused, match="ep"):
            sent(model, **words)
        return
    assert sent(model, **words)["optimizer adamw"] == pytest.approx(28 * stepped, rel=1e-6)


@pytest.mark.parametrize(
    ("model", "plan", "added"),
    [
        ("llama-3-8b", {"dp": 64, "zero": 0}, 8_030_261_248),
        ("llama-3-8b", {"dp": 64, "zero": 1}, 8_030_261_248),
        ("llama-3-8b", {"dp": 64, "zero": 2}, 8_030_261_248 / 64),
        ("llama-3-8b", {"dp": 64, "zero": 3, "shard": 8}, 8_030_261_248 / 8),
        ("llama-3-8b", {"dp": 32, "pp": 2, "zero": 3}, 8_030_261_248 / 2),
        ("mixtral-8x7b", {"dp": 64, "ep": 8, "zero": 3}, (REST + EXPERTS) / 64),
    ],
)
def test_gradients_are_added_up_in_parts_where_every_pass_reduces_them(
    model: str, plan: dict[str, Any], added: float
) -> None:
    """What is there is read, what is new is read, and the sum is written: 12 bytes a parameter in fp32, three times
    for four micro-batches. A pipeline adds whole gradients up: of half the layers, and a table or a head as large."""
    words = {"cluster": "dgx-h100", "seq": 512, "micro_batches": 4, "recipe": "bf16-mixed", "checkpointing": "full"}
    found = sent(model, **words, **plan)
    assert found["gradients.accumulate accumulate"] == pytest.approx(3 * 12 * added, rel=1e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_a_table_that_two_stages_have_is_summed_between_them(tied: bool) -> None:
    model = "gemma-2-9b" if tied else "llama-3-8b"
    plan = {
        "cluster": "dgx-h100",
        "pp": 2,
        "dp": 8,
        "seq": 512,
        "zero": 1,
        "micro_batches": 4,
        "stack": "megatron-core",
    }
    found = sent(model, recipe="bf16-mixed", **plan)
    assert ("data of the table all_reduce" in found) is tied
    if tied:
        assert found["data of the table all_reduce"] == pytest.approx(256_000 * 3584 * 4)
    assert "data of the table all_reduce" not in sent(model, recipe="bf16-mixed", **plan | {"pp": 1, "dp": 16})


@pytest.mark.parametrize(("zero", "reduced", "gathered"), [(1, 1, 1), (2, 8, 1), (3, 8, 16)])
def test_what_is_divided_between_passes_is_told_in_every_pass(zero: int, reduced: int, gathered: int) -> None:
    """ZeRO-2 keeps no whole gradients from pass to pass, ZeRO-3 no whole weights from forward to back either."""
    plan: dict[str, Any] = {"cluster": "dgx-h100", "dp": 8, "seq": 512, "recipe": "bf16-mixed"}
    spec = calc.load_model("llama-3-8b")

    def seconds(**words: Any) -> dict[str, float]:
        found = predict(spec, "h100-sxm", phase="training", **plan, **words)
        own = [row for row in found.kernels if row.kernel.path == "data"]
        return {op: sum(row.seconds for row in own if row.kernel.function == op) for op in OPS}

    once, several = seconds(zero=1, micro_batches=1), seconds(zero=zero, micro_batches=8)
    assert several["reduce_scatter"] == pytest.approx(reduced * once["reduce_scatter"])
    assert several["all_gather"] == pytest.approx(gathered * once["all_gather"])
