"""What a tensor-parallel rank runs and keeps of a recurrence, against the same model described at a rank's size."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from calc.architectures import from_config  # noqa: E402
from calc.architectures.models import load_model  # noqa: E402
from calc.blocks.build import build  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.memory.conditions import check as check_plan  # noqa: E402
from calc.memory.on_rank import saved_on_rank  # noqa: E402
from calc.memory.sharding import held_elements  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import (  # noqa: E402
    Attention,
    GatedConvolution,
    LayerGroup,
    Mamba,
    Mamba2,
    ModelSpec,
    Node,
    QkNorm,
    RgLru,
    Rwkv4,
)
from calc.spec.load import Load  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from calc.time import predict  # noqa: E402
from calc.time.step.rank_share import share_of  # noqa: E402
from calc.trace.part import Leaf, leaves  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from tests.memory.rank_blocks import BLOCKS, CHANNELS, LINEAR, STATE, merged, name_of, of  # noqa: E402
from tests.memory.rank_sized import rank_sized  # noqa: E402
from tests.saved.test_twins import CONFIGS, MODES, SEQ, Mode, measured, size, twin  # noqa: E402

RANKS = (1, 2, 4, 8)
PRESETS = (
    "falcon-h1-7b",
    "nemotron-3-super",
    "qwen3-next-80b-a3b",
    "qwen3.5-27b",
    "qwen3.5-397b-a17b",
    "kimi-linear-48b",
)
SHARED_READS = ("decay", "state_output", "scores", "scan")
"""Ops that read a few numbers which every rank has whole, and of which it is told a share: of Mamba's scan and of
Mamba-2's decoding, B and C of a single group; of latent attention, the rotary part of keys."""


def run_of(tp: int, load: Load) -> Run:
    return Run(mode="training", tp=tp, batch=load.batch, seq=load.seq, sequence_parallel=False)


def layer_leaves(spec: ModelSpec, load: Load) -> list[Leaf]:
    return [leaf for leaf in leaves(build(spec, load)) if leaf.place == "layer" and leaf.tower is None]


def same_ops(spec: ModelSpec, tp: int, load: Load) -> None:
    run = run_of(tp, load)
    for whole, part in zip(layer_leaves(spec, load), layer_leaves(rank_sized(spec, tp), load), strict=True):
        for ours, theirs in zip(whole.op.weights, part.op.weights, strict=True):
            assert held_elements(ours, run) == theirs.elements
        share, op, own = share_of(whole, run), whole.op, part.op
        assert op.flops * share.flops == pytest.approx(own.flops)
        assert float(op.writes or 0) * share.writes == pytest.approx(float(own.writes or 0))
        assert float(op.weights_read) * share.weights == pytest.approx(float(own.weights_read))
        assert float(op.cache_reads) * share.of_cache == pytest.approx(float(own.cache_reads))
        assert float(op.cache_writes) * share.of_cache == pytest.approx(float(own.cache_writes))
        assert float(op.state_reads) * share.of_keys == pytest.approx(float(own.state_reads))
        assert float(op.state_writes) * share.of_keys == pytest.approx(float(own.state_writes))
        if op.shape is not None:
            assert share.shape == own.shape
        if op.name not in SHARED_READS:
            assert share.read(whole, float(op.reads or 0)) == pytest.approx(float(own.reads or 0))


def kept(spec: ModelSpec, tp: int, load: Load, settings: Settings) -> dict[str, int]:
    """Bytes that a rank keeps of one layer of each kind."""
    run = run_of(tp, load)
    made = saved_tensors(spec, load, settings).layers
    return {name: sum(int(saved_on_rank(saved, run)) for saved in each.saved) for name, each in made.items()}


@pytest.mark.parametrize("tp", RANKS)
@pytest.mark.parametrize("block", BLOCKS, ids=name_of)
def test_a_rank_runs_the_ops_of_a_model_of_its_size(block: Node, tp: int) -> None:
    for load in (Load(batch=2, seq=SEQ), Load(batch=3, seq=7), Load(batch=2, seq=1, context=40, decode=True)):
        same_ops(of(block), tp, load)


@pytest.mark.parametrize("tp", RANKS)
@pytest.mark.parametrize("block", BLOCKS, ids=name_of)
def test_a_rank_keeps_what_a_model_of_its_size_keeps(block: Node, tp: int) -> None:
    for mode in MODES:
        load = Load(batch=mode.batch, seq=SEQ)
        ranks = kept(rank_sized(of(block), tp), 1, load, mode.settings())
        assert kept(of(block), tp, load, mode.settings()) == ranks


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", "bf16"), Mode(autocast=True, dropout=0.1)], ids=str)
@pytest.mark.parametrize("block", BLOCKS, ids=name_of)
def test_a_rank_keeps_what_autograd_keeps_of_its_part(block: Node, mode: Mode, tp: int) -> None:
    """Hooks on a twin with a rank's heads; the last layer, since the first keeps what serves all."""
    found = measured(twin(rank_sized(of(block), tp), mode), mode)
    *_, bytes_kept = kept(of(block), tp, Load(batch=mode.batch, seq=SEQ), mode.settings()).values()
    assert found.within(f"layers.{of(block).n_layers - 1}") == bytes_kept


FAMILIES = (
    *(
        "falcon_h1",
        "zamba2",
        "nemotron_h",
        "qwen3_5_text",
        "deepseek_v4",
        "hy_v4",
        "step3p5",
        "mistral_large4",
        "rwkv7",
    ),
    *("qwen4_exp_text", "longcat_flash"),
    *("lfm2", "mamba", "jamba", "rwkv", "recurrent_gemma", "minimax"),
)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", "bf16")], ids=str)
def test_ranks_keep_what_autograd_keeps_of_whole_families(name: str, mode: Mode) -> None:
    """Beside layers, what the ends keep, which the twin has whole."""
    spec, load = from_config({"model_type": name, **CONFIGS[name]}), Load(batch=mode.batch, seq=SEQ)
    check_plan(spec, run_of(2, load))
    made = saved_tensors(spec, load, mode.settings())
    ends = sum(size(some) for some in (made.front, made.common, made.end, made.loss))
    layers = kept(spec, 2, load, mode.settings())
    inside = sum(each.count * layers[name] for name, each in made.layers.items())
    assert measured(twin(rank_sized(spec, 2), mode), mode).total == ends + inside


@pytest.mark.parametrize("name", PRESETS)
def test_ranks_of_published_models(name: str) -> None:
    spec, load, how = load_model(name), Load(batch=1, seq=300), Settings("sdpa", "bf16", True)
    for tp in (2, 4, 8):
        try:
            check_plan(spec, run_of(tp, load))
        except Refused as refusal:
            assert (name, tp, refusal.expected) == ("falcon-h1-7b", 8, "a divisor of n_heads = 12")
            continue
        same_ops(spec, tp, load)
        text = {group.name for group in spec.layers}
        whole, part = kept(spec, tp, load, how), kept(rank_sized(spec, tp), 1, load, how)
        assert {k: v for k, v in whole.items() if k in text} == {k: v for k, v in part.items() if k in text}


@pytest.mark.parametrize("tp", RANKS)
@pytest.mark.parametrize(
    ("block", "replicated"),
    [
        # Rows of B and C, through the projection and through filters of four taps over three positions more.
        (BLOCKS[1], 2 * 2 * SEQ * 16 * 2 * 5 + 2 * 2 * (SEQ + 3) * 2 * 5 * 4),
        (BLOCKS[0], 0),
        (BLOCKS[4], 0),
        (BLOCKS[5], 0),
        # What decays and gates go through, d_head values each.
        (BLOCKS[6], 2 * (2 * 2 * SEQ * 16 * 5)),
        (BLOCKS[7], 0),
        # Queries' latent and the one head of keys.
        (BLOCKS[9], 2 * 2 * SEQ * 16 * (6 + 8)),
        # What decays, learning rates and gates go through, and in later layers values.
        (BLOCKS[12], 2 * 2 * SEQ * 16 * ((4 + 3 + 2) + (4 + 3 + 2 + 3))),
    ],
    ids=["single group", "groups", "delta net", "fused delta net", "kda", "kda without bottlenecks", "v4", "rwkv7"],
)
def test_flops_of_all_ranks_are_the_whole_and_what_each_repeats(block: Node, replicated: int, tp: int) -> None:
    load = Load(batch=2, seq=SEQ)
    laid = layer_leaves(of(block), load)
    whole = sum(leaf.op.flops for leaf in laid)
    ranks = tp * sum(leaf.op.flops * share_of(leaf, run_of(tp, load)).flops for leaf in laid)
    assert ranks == pytest.approx(whole + (tp - 1) * replicated)


@pytest.mark.parametrize("tp", RANKS)
@pytest.mark.parametrize("block", [*CHANNELS, *LINEAR], ids=name_of)
def test_no_rank_repeats_what_another_does(block: Node, tp: int) -> None:
    load = Load(batch=2, seq=SEQ)
    laid = [leaf for leaf in layer_leaves(of(block), load) if leaf.parents[-1].region == "mixer" and leaf.op.flops]
    assert laid
    assert [share_of(leaf, run_of(tp, load)).flops for leaf in laid] == pytest.approx([1 / tp] * len(laid))


@pytest.mark.parametrize("sequence_parallel", [True, False])
def test_step_sizes_are_summed_within_a_block_of_mamba(sequence_parallel: bool) -> None:
    """A step's width, B and C of every token, whole on every rank, and going back their gradients."""
    spec = of(Mamba(d_inner=24, dt_rank=3, d_state=5))
    run = {"phase": "training", "tp": 2, "seq": 64, "sequence_parallel": sequence_parallel}
    found = [row.kernel for row in predict(spec, "h100-sxm", **run).kernels]
    sums = [(each.shape.op, each.bytes, each.calls) for each in found if each.path.endswith("x_proj.tensor")]
    assert sums == [("all_reduce", 64 * (3 + 2 * 5) * 2, 2 * 2)]


def test_a_norm_over_all_ranks_is_a_sum_of_its_own() -> None:
    """Falcon-H1's channels are one group: every rank has some of each vector that is normed, in fp32. So it is with
    lightning attention; layer norm takes means away too."""

    def sums(spec: ModelSpec, block: str, norm: str = "norm") -> list[tuple[float, float]]:
        found = (row.kernel for row in predict(spec, "h100-sxm", phase="training", tp=2, seq=512).kernels)
        return [(each.bytes, each.calls) for each in found if each.path.endswith(f"{block}.{norm}.tensor")]

    assert sums(load_model("falcon-h1-7b"), "mamba2") == [(512 * 4, 44 * 2)]
    assert sums(load_model("nemotron-3-super"), "mamba2") == []
    assert sums(of(LINEAR[2]), "linear_attention") == [(512 * 4, 2 * 2)]
    assert sums(of(LINEAR[3]), "linear_attention") == [(512 * 4 * 2, 2 * 2)]
    assert sums(of(LINEAR[0]), "linear_attention") == []
    normed = Attention(n_heads=8, qk_norm=QkNorm(span="all"))
    assert sums(of(normed), "attention", "q_norm") == sums(of(normed), "attention", "k_norm") == [(512 * 4, 2 * 2)]
    assert sums(of(Attention(n_heads=8, qk_norm=QkNorm())), "attention", "q_norm") == []


def test_a_single_head_of_linear_attention_is_refused_in_training() -> None:
    """Of several heads and sequences copies are kept, laid out for products, and of one what is copied."""
    check_plan(of(LINEAR[0]), Run(mode="training", tp=8))
    check_plan(of(LINEAR[0]), Run(mode="inference", tp=16))
    with pytest.raises(Refused, match="tp: expected fewer than n_heads = 16 in training"):
        check_plan(of(LINEAR[0]), Run(mode="training", tp=16))


def test_a_single_key_head_of_one_projection_is_refused_in_training() -> None:
    spec = of(BLOCKS[5])
    check_plan(spec, Run(mode="training", tp=8))
    check_plan(spec, Run(mode="inference", tp=16))
    with pytest.raises(Refused, match="tp: expected fewer than n_key_heads = 16"):
        check_plan(spec, Run(mode="training", tp=16))


def test_groups_that_do_not_divide_are_refused() -> None:
    with pytest.raises(Refused, match="tp: expected a divisor of n_groups = 2, found 4"):
        check_plan(of(Mamba2(n_heads=8, n_groups=2, **STATE)), Run(mode="training", tp=4))


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (GatedConvolution(), "d_inner = 16"),
        (Rwkv4(d_inner=24), "d_inner = 24"),
        (Mamba(), "d_inner = 32"),
        (RgLru(d_inner=24, n_blocks=4), "n_blocks = 4"),
    ],
    ids=lambda each: getattr(each, "kind", each),
)
def test_channels_that_do_not_divide_are_refused(block: Node, said: str) -> None:
    with pytest.raises(Refused, match=f"tp: expected a divisor of {said}, found 5"):
        check_plan(
            of(block).model_copy(update={"layers": (LayerGroup(count=1, mixer=block),)}), Run(mode="inference", tp=5)
        )


@pytest.mark.parametrize("name", ["deepseek-v4-pro", "rwkv7-1.5b", "rwkv4"])
def test_parts_of_the_sequence_are_refused_in_training_where_a_token_reads_the_one_before_it(name: str) -> None:
    spec = of(Rwkv4()) if name == "rwkv4" else load_model(name)
    check_plan(spec, Run(mode="training", tp=2, sequence_parallel=False))
    check_plan(spec, Run(mode="inference", tp=2))
    with pytest.raises(Refused, match="tp: expected 1, or --no-sequence-parallel, in training with"):
        check_plan(spec, Run(mode="training", tp=2))


@pytest.mark.parametrize("tp", RANKS)
def test_ranks_divide_keys_of_an_encoder_as_they_do_a_token_s(tp: int) -> None:
    same_ops(merged(), tp, Load(batch=2, seq=12, source=9))
    same_ops(merged(), tp, Load(batch=2, seq=1, context=12, source=9, decode=True))


def test_ranks_do_not_pass_on_an_encoder_s_keys() -> None:
    with pytest.raises(Refused, match="cp"):
        check_plan(merged(), Run(mode="training", cp=2, batch=2, seq=12, source_seq=8))
