"""What a tensor-parallel rank runs and keeps of adapters, against the same model described at a rank's size."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from calc.architectures.models import load_model  # noqa: E402
from calc.blocks.build import build  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.memory.conditions import check as check_plan  # noqa: E402
from calc.memory.sharding import held_elements  # noqa: E402
from calc.memory.totals import memory_ranks  # noqa: E402
from calc.spec import Adapter, Attention, Bottleneck, Lora, Mamba, Node, Prefix, Prompt  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from calc.time import predict  # noqa: E402
from calc.trace.part import leaves  # noqa: E402
from tests.memory.rank_blocks import BLOCKS, of  # noqa: E402
from tests.memory.rank_sized import rank_sized  # noqa: E402
from tests.memory.test_rank_sized import kept, layer_leaves, run_of, same_ops  # noqa: E402
from tests.saved.test_twins import MODES, SEQ  # noqa: E402

OTHERS = (Bottleneck(width=8), Prefix(length=5), Prompt(length=5))


@pytest.mark.parametrize(
    ("block", "targets"),
    [
        (BLOCKS[1], ("in_proj", "out_proj")),
        (BLOCKS[4], ("qkv_proj", "out_proj")),
        (BLOCKS[6], ("q_proj", "f_a_proj")),
        (Attention(n_heads=16, n_kv_heads=8, d_head=4), ("q_proj", "k_proj", "o_proj")),
        (Mamba(dt_rank=3, d_state=5), ("in_proj", "x_proj", "dt_proj", "out_proj")),
    ],
    ids=["mamba2", "delta net", "kda", "attention", "mamba"],
)
@pytest.mark.parametrize("tp", [2, 4])
def test_low_rank_updates_are_divided_as_their_matrices(block: Node, targets: tuple[str, ...], tp: int) -> None:
    """Of the first layer too, which is passed in a way of its own: its weights stand in the part of the others."""
    spec, load = of(block).model_copy(update={"adapter": Lora(rank=2, targets=targets)}), Load(batch=2, seq=SEQ)
    assert any(leaf.parents[1].way for leaf in layer_leaves(spec, load))
    same_ops(spec, tp, load)
    for mode in MODES:
        assert kept(spec, tp, load, mode.settings()) == kept(rank_sized(spec, tp), 1, load, mode.settings())


def test_results_of_a_layer_whose_weights_stand_elsewhere_are_summed() -> None:
    """Two sums a layer, forward and back, of all 80 layers: also of the first, ahead of which nothing is trained."""
    lora = Lora(rank=16, targets=("q_proj", "v_proj"))
    spec = load_model("llama-2-70b").model_copy(update={"adapter": lora})
    found = predict(spec, "h100-sxm", phase="training", tp=2, seq=512, sequence_parallel=False).kernels
    sums = [row.kernel for row in found if row.kernel.path.endswith(("attention.o_proj.tensor", "down_proj.tensor"))]
    assert sum(each.calls for each in sums) == 80 * 2 * 2


@pytest.mark.parametrize(
    "adapter", [Bottleneck(width=8), Prefix(length=5), Prompt(length=5)], ids=lambda each: each.kind
)
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_ranks_divide_other_adapters(adapter: Adapter, tp: int) -> None:
    """A bottleneck by its width, a prefix by heads of keys, which more ranks share; a prompt is whole on each."""
    spec = of(Attention(n_heads=16, n_kv_heads=4, d_head=4)).model_copy(update={"adapter": adapter})
    for load in (Load(batch=2, seq=SEQ), Load(batch=2, seq=1, context=40, decode=True)):
        run = run_of(tp, load)
        check_plan(spec, run)
        same_ops(spec, tp, load)
        prompts = [leaf.op for leaf in leaves(build(spec, load)) if leaf.op.name == "prompt"]
        assert [held_elements(op.weights[0], run) for op in prompts] == [5 * 16] * len(prompts)


def test_a_bottleneck_that_does_not_divide_is_refused() -> None:
    spec = of(Attention(n_heads=4)).model_copy(update={"adapter": Bottleneck(width=6)})
    check_plan(spec, Run(tp=2))
    with pytest.raises(Refused, match="tp: expected a divisor of the adapter's width = 6, found 4"):
        check_plan(spec, Run(tp=4))


@pytest.mark.parametrize("adapter", OTHERS, ids=lambda each: each.kind)
def test_an_adapter_that_is_not_answered_is_refused_before_its_divisor(adapter: Adapter) -> None:
    """GPT-2 has heads for three ranks and a bottleneck of 8 does not divide, but one that did would help nobody."""
    spec = load_model("gpt2").model_copy(update={"adapter": adapter})
    with pytest.raises(Refused, match=r"^adapter: expected lora, or none"):
        memory_ranks(spec, Run(seq=64, tp=3))
    for phase in ("prefill", "training"):
        with pytest.raises(Refused, match=r"^adapter: expected lora, or none"):
            predict(spec, "h100-sxm", phase=phase, seq=64, tp=3)
    serving = Run(seq=64, tp=3, mode="inference")
    if isinstance(adapter, Bottleneck):
        with pytest.raises(Refused, match=r"^adapter: expected none that acts within layers"):
            memory_ranks(spec, serving)
    else:
        assert memory_ranks(spec, serving)[0].total > memory_ranks(load_model("gpt2"), serving)[0].total
