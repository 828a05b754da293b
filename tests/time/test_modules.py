"""Modules that are computed again by themselves take the products and messages of their forward pass once more."""

from __future__ import annotations

import pytest

import calc
from calc.errors import Refused
from calc.spec.run import Run
from calc.time import predict
from calc.time.cluster.links import links_of
from calc.time.step.network import between_ops
from calc.time.step.plans import step_times
from tests.time.laid import operations

SPEC = calc.load_model("deepseek-v3")
ROWS = 128


def products(module: str) -> int:
    """Multiplications and additions of one forward pass of a module over all layers, from the paper's sizes
    (arXiv:2412.19437, section 4.2)."""
    d, heads, latents = 7168, 128, (1536, 512)
    up = latents[0] * heads * (128 + 64) + latents[1] * heads * (128 + 128)
    routed, shared, dense = 8 * 3 * d * 2048, 3 * d * 2048, 3 * d * 18432
    each = {
        "mla_up_proj": 61 * up,
        "moe": 58 * (256 * d + routed + shared),
        "shared_experts": 58 * shared,
        "mlp": 3 * dense,
        "moe_act": 0,
        "layernorm": 0,
    }
    return 2 * ROWS * each[module]


@pytest.mark.parametrize("module", ["mla_up_proj", "moe", "shared_experts", "mlp", "moe_act", "layernorm"])
def test_products_run_once_more(module: str) -> None:
    run = Run(phase="training", mode="training", seq=ROWS, execution="compiled", recompute=(module,))
    again = [kernel for kernel in operations(SPEC, run) if kernel.direction == "recomputed"]
    assert again
    assert sum(kernel.flops * kernel.calls for kernel in again) == pytest.approx(products(module), rel=1e-12)


@pytest.mark.parametrize(("module", "more"), [("moe", 1), ("mla_up_proj", 0), ("shared_experts", 0)])
def test_experts_tokens_travel_once_more(module: str, more: int) -> None:
    def calls(*names: str) -> float:
        words = {"phase": "training", "mode": "training", "seq": ROWS, "ep": 8, "dp": 8, "cluster": "dgx-h100"}
        run = Run(**words, stack="megatron-core", recompute=names)
        links = links_of(run, calc.load_device("h100-sxm"))
        return sum(each.calls for each in between_ops(SPEC, run, links) if each.between == "experts")

    # There and back, forward and going back.
    assert calls() == 58 * 4
    assert calls(module) == 58 * (4 + 2 * more)


def test_plans_in_columns_are_plans_alone() -> None:
    words = {"phase": "training", "cluster": "dgx-h100", "seq": 512, "ep": 8, "recompute": ("moe_act", "layernorm")}
    alone = [predict(SPEC, "h100-sxm", dp=8, tp=tp, **words).seconds for tp in (1, 2)]
    found = step_times(SPEC, "h100-sxm", dp=[8, 8], tp=[1, 2], memory=False, **words)
    assert found.seconds == pytest.approx(alone, rel=1e-9)
    plain = predict(SPEC, "h100-sxm", dp=8, **(words | {"recompute": (), "checkpointing": "none"})).seconds
    assert plain < alone[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"recompute": ("norm",)}, "recompute: expected one of attention, .*, whose time is known, found norm"),
        ({"recompute": ("moe",)}, r"recompute: expected modules that the model has \(core_attn, mlp\)"),
        ({"recompute": ("mlp",), "checkpointing": "full"}, "recompute: expected none beside full checkpointing"),
        ({"recompute": ("mlp",), "phase": "forward"}, "recompute: expected none beside forward"),
    ],
)
def test_what_is_refused(words: dict[str, object], message: str) -> None:
    with pytest.raises(Refused, match=message):
        predict(calc.load_model("gpt2"), "h100-sxm", **({"phase": "training", "seq": 128} | words))
