"""What a tensor-parallel rank runs and keeps of Llama 3.2 Vision: layers that read tiles beside text, and its tower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from calc.architectures import from_config  # noqa: E402
from calc.blocks.build import build  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.memory.conditions import check as check_plan  # noqa: E402
from calc.memory.sharding import held_elements  # noqa: E402
from calc.quantities.parameters import weights  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from calc.trace.part import leaves  # noqa: E402
from tests.memory.rank_sized import rank_sized  # noqa: E402
from tests.memory.test_rank_sized import kept, run_of, same_ops  # noqa: E402
from tests.saved.test_twins import CONFIGS, MODES, SEQ, Mode, measured, size, twin  # noqa: E402


def mllama(heads: int) -> ModelSpec:
    """A small one with so many heads in its tower."""
    config: dict[str, Any] = CONFIGS["mllama"]
    vision = config["vision_config"] | {"attention_heads": heads}
    return from_config({"model_type": "mllama", **config, "vision_config": vision})


def alone(heads: int) -> ModelSpec:
    """A small tower of it without a text."""
    return from_config(
        {"model_type": "mllama_vision_model", **CONFIGS["mllama_vision_model"], "attention_heads": heads}
    )


MODELS = pytest.mark.parametrize("make", [mllama, alone])


@MODELS
def test_ranks_divide_layers_that_read_tiles_and_their_tower(make: Callable[[int], ModelSpec]) -> None:
    spec, load = make(4), Load(batch=2, seq=SEQ)
    run = run_of(2, load)
    check_plan(spec, run)
    same_ops(spec, 2, load)
    for whole, part in zip(leaves(build(spec, load)), leaves(build(rank_sized(spec, 2), load)), strict=True):
        if (whole.tower is not None or make is alone) and whole.place == "layer":
            ours = [held_elements(weight, run) for weight in whole.op.weights]
            assert ours == [weight.elements for weight in part.op.weights]
    for mode in MODES:
        assert kept(spec, 2, load, mode.settings()) == kept(rank_sized(spec, 2), 1, load, mode.settings())


@MODELS
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", "bf16"), Mode("sdpa", autocast=True)], ids=str)
def test_ranks_keep_what_autograd_keeps_of_their_part(mode: Mode, make: Callable[[int], ModelSpec]) -> None:
    """Beside layers, what the ends keep, which the twin has whole."""
    spec, load = make(4), Load(batch=mode.batch, seq=SEQ)
    made = saved_tensors(spec, load, mode.settings())
    ends = sum(size(some) for some in (made.front, made.common, made.end, made.loss))
    layers = kept(spec, 2, load, mode.settings())
    inside = sum(each.count * layers[name] for name, each in made.layers.items())
    assert measured(twin(rank_sized(spec, 2), mode), mode).total == ends + inside


def test_matrices_by_hand() -> None:
    """Of cross-attention as of the others: queries, keys, values, the last; not norms, gates or what leads from tiles
    to the text."""
    whole, half = ({path: held_elements(weight, Run(tp=tp)) for path, weight, _ in weights(mllama(4))} for tp in (1, 2))
    halved = {path for path in whole if path.endswith("weight") and whole[path] == 2 * half[path]}
    crossed = {path.split(".")[-2] for path in halved if ".cross_attention." in path}
    seen = {path.split(".")[-2] for path in halved if path.startswith("encoder.")}
    assert crossed == {"q_proj", "k_proj", "v_proj", "o_proj"}
    assert seen == crossed | {"up_proj", "down_proj"}


def test_heads_of_the_tower_must_divide_too() -> None:
    with pytest.raises(Refused, match="tp: expected a divisor of n_heads = 3, found 2"):
        check_plan(mllama(3), Run(tp=2))
