"""What a token asks of a model, held to arithmetic on its description."""

from __future__ import annotations

import numpy as np
import pytest

import calc
from calc.errors import Refused
from calc.memory.serving import servers
from calc.serve.formats import served_format
from calc.serve.layout import layout_of
from calc.serve.rank import at, rank_of
from calc.serve.service import service_of
from calc.serve.work import LONGEST, lengths, work_of
from calc.spec import Head, LayerGroup, Mamba, ModelSpec
from calc.spec.run import Run

LAYERS, D, HEADS, KV, HEAD, FF, VOCABULARY = 32, 4096, 32, 8, 128, 14336, 128_256
"""Llama-3.1-8B's config.json."""


def test_a_dense_model_by_hand() -> None:
    spec = calc.load_model("llama-3.1-8b")
    rank = rank_of(work_of(spec), layout_of(spec), served_format("bf16"), "bf16")
    layer = D * (HEADS + 2 * KV) * HEAD + HEADS * HEAD * D + 3 * D * FF
    assert rank.wide == LAYERS * layer
    assert rank.dense == rank.expert == 0
    assert rank.head == VOCABULARY * D
    for context in (1, 100, 4096, 100_000):
        assert at(rank.decode_bytes, context) == pytest.approx(LAYERS * 2 * KV * HEAD * context * 2, rel=1e-9)
        assert at(rank.cached_bytes, context) == pytest.approx(LAYERS * 2 * KV * HEAD * context * 2, rel=1e-9)
        # The new token sees itself too.
        assert at(rank.decode_flops, context) == pytest.approx(LAYERS * 4 * HEADS * HEAD * (context + 1), rel=1e-9)
        pairs = context * (context + 1) / 2
        assert at(rank.prompt_flops, context) == pytest.approx(LAYERS * 4 * HEADS * HEAD * pairs, rel=2e-3)


@pytest.mark.parametrize(
    "name", ["zamba2-2.7b", "electra-small-discriminator", "gpt-oss-120b", "deepseek-v3", "gemma-3-27b", "gemma-4-31b"]
)
def test_a_server_holds_the_weights_of_its_model(name: str) -> None:
    """Layers that share a block hold it once. Norms and positions of the text are left out: no pass multiplies by them.
    Electra has 1 % of positions."""
    spec = calc.load_model(name)
    held = service_of(spec, "h100-sxm", layout_of(spec, gpus=1)).rank.held
    weights = float(calc.estimate(spec, "weights").value)
    assert (0.99 if name.startswith("electra") else 0.995) * weights < held <= weights


def test_towers_stand_beside_the_text() -> None:
    """All of gemma-4-31b's tower as it is counted, in 16 bits whatever the text is in; llama.cpp's is another file."""
    spec = calc.load_model("gemma-4-31b")
    tower = 2 * calc.estimate(spec, "params").terms["vision"]
    one, narrow, many = (
        service_of(spec, "h200", layout_of(spec, tp=tp), dtype=dtype).rank
        for tp, dtype in ((1, "bf16"), (1, "fp8"), (4, "bf16"))
    )
    assert one.towers == narrow.towers == tower
    assert tower / 4 < many.towers < tower * 0.3  # patches and positions are whole on every rank
    assert one.held - one.towers < 0.982 * float(calc.estimate(spec, "weights").value)
    assert service_of(spec, "h200", layout_of(spec), "llama.cpp", "q8_0").rank.towers == 0


def test_stages_hold_the_table_or_the_head_besides_their_layers() -> None:
    """And under llama.cpp, which leaves the table to the CPU, the head alone: 70B in q4_k_m on two RTX 4090."""
    spec = calc.load_model("llama-3-70b")
    table = 2 * 128_256 * 8192
    for engine in ("vllm", "sglang"):
        one, two = (service_of(spec, "h200", layout_of(spec, pp=pp), engine).rank.held for pp in (1, 2))
        assert one - 2 * table == pytest.approx(2 * (two - table))
        assert two < one / 2 + table
    whole = float(calc.estimate(spec, "weights").value)
    assert service_of(spec, "h200", layout_of(spec), "vllm").rank.held == pytest.approx(whole, rel=1e-3)
    local = service_of(spec, "h200", layout_of(spec), "llama.cpp").rank
    assert local.held == pytest.approx(whole - table, rel=1e-3)
    usual = service_of(spec, "rtx-4090", layout_of(spec, pp=2), "llama.cpp", "q4_k_m")
    layers, head = (whole - 2 * table) * 4.8 / 16, table * 6.5625 / 16
    assert usual.rank.held == pytest.approx(layers / 2 + head, rel=1e-3)
    assert usual.running(1024, 256) >= 1


def test_ranks_divide_what_they_can() -> None:
    spec = calc.load_model("llama-3.1-8b")
    work = work_of(spec)
    one, many = (rank_of(work, layout_of(spec, tp=tp), served_format("fp8"), "fp8") for tp in (1, 16))
    assert many.dense < one.dense / 8
    assert at(many.decode_bytes, 1000) == pytest.approx(at(one.decode_bytes, 1000) / 8)  # 8 heads of keys and values
    assert at(many.prompt_flops, 1000) == pytest.approx(at(one.prompt_flops, 1000) / 16)
    assert one.sums == 0
    assert many.sums == 2 * LAYERS


@pytest.mark.parametrize(
    ("name", "sums"),
    [
        ("llama-3.1-8b", 2 * 32),
        ("deepseek-v3", 2 * 61),  # routed and shared experts together
        ("nemotron-3-super", 88),  # one block a layer
        ("falcon-h1-7b", 3 * 44),  # attention and Mamba-2 beside each other
        ("zamba2-2.7b", 54 + 9 * 2),  # both halves of the shared block, nine times
    ],
)
def test_ranks_sum_what_each_block_gives(name: str, sums: int) -> None:
    spec = calc.load_model(name)
    work = work_of(spec)
    one, two = (rank_of(work, layout_of(spec, tp=tp), served_format("bf16"), "bf16") for tp in (1, 2))
    assert (one.sums + one.exchanges, two.sums + two.exchanges) == (0, sums)
    assert two.exchanges == two.moe_layers
    assert two.summed == 2 * spec.d_model


def test_ranks_sum_within_a_block_of_mamba() -> None:
    """Step sizes, B and C of a token, 3 + 2 * 5 numbers, and what the block gives."""
    group = LayerGroup(count=4, mixer=Mamba(d_inner=24, dt_rank=3, d_state=5))
    spec = ModelSpec(d_model=16, vocab_size=32, layers=(group,), head=Head())
    rank = rank_of(work_of(spec), layout_of(spec, tp=2), served_format("bf16"), "bf16")
    assert (rank.sums, rank.summed) == (2 * 4, 2 * (13 + 16) / 2)


@pytest.mark.parametrize("tp", [1, 2])
def test_a_rank_of_a_server_holds_what_memory_says_it_does(tp: int) -> None:
    spec = calc.load_model("zamba2-2.7b")
    held = service_of(spec, "h100-sxm", layout_of(spec, tp=tp)).rank.held
    (whole,) = servers(spec, Run(mode="inference", tp=tp, execution="compiled"))
    assert 0.995 * whole.terms["weights"] < held <= whole.terms["weights"]


def test_experts_stand_apart() -> None:
    """gpt-oss-120b: 36 layers of 128 experts, 4 a token, each 3 * 2880 * 2880; only they are in 4 bits."""
    spec = calc.load_model("gpt-oss-120b")
    rank = rank_of(work_of(spec), layout_of(spec, tp=4, ep=2), served_format("mxfp4"), "bf16")
    assert rank.expert == 36 * 3 * 2880 * 2880 / 2
    assert rank.expert_bytes == rank.expert * 4.25 / 8
    assert (rank.local, rank.n_experts, rank.top_k) == (64, 128, 4)
    assert rank.dense == 0


def test_windows_stop_growing() -> None:
    """gpt-oss-120b: every other layer sees 128 tokens."""
    spec = calc.load_model("gpt-oss-120b")
    rank = rank_of(work_of(spec), layout_of(spec), served_format("mxfp4"), "bf16")
    token = 2 * 8 * 64 * 2
    assert at(rank.cached_bytes, 8192) == pytest.approx(18 * token * (8192 + 128))


def test_latents_are_held_by_every_rank() -> None:
    spec = calc.load_model("deepseek-v3")
    work = work_of(spec)
    one, eight = (rank_of(work, layout_of(spec, tp=tp), served_format("fp8"), "bf16") for tp in (1, 8))
    assert at(one.cached_bytes, 1000) == at(eight.cached_bytes, 1000) == pytest.approx(61 * 576 * 1000 * 2)


def test_lengths_are_close_enough() -> None:
    places = lengths()
    assert places[0] == 0
    assert places[-1] == LONGEST
    assert np.all(np.diff(places) > 0)
    asked = np.arange(1.0, 2**18)
    over = at(places**2, asked) / asked**2 - 1
    assert np.all(over >= -1e-12)
    assert 0.0012 < over.mean() < 0.0013
    assert 0.0019 < over[asked >= 128].max() < 0.0021
    assert 0.005 < over.max() < 0.0052


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"tp": 3}, "--tp"),
        ({"gpus": 3, "tp": 2}, "--gpus"),
        ({"tp": 2, "ep": 2}, "--ep"),
        ({"pp": 33}, "--pp"),
        ({"tp": 4, "moe_tp": 3}, "--moe-tp"),
    ],
)
def test_layouts_that_cannot_be(words: dict[str, int], field: str) -> None:
    with pytest.raises(Refused, match=field):
        layout_of(calc.load_model("llama-3.1-8b"), **words)


def test_what_is_left_is_replicas() -> None:
    layout = layout_of(calc.load_model("qwen3-30b-a3b"), gpus=16, tp=2, attention_dp=2, moe_tp=1)
    assert (layout.ep, layout.moe_tp, layout.replicas, layout.gpus_each) == (4, 1, 4, 4)


def test_one_piece_on_one_rank_is_no_division() -> None:
    """Tables of measurements say so of models without experts, however many GPUs share them."""
    layout = layout_of(calc.load_model("llama-3.1-8b"), tp=8, ep=1, moe_tp=1)
    assert (layout.tp, layout.ep, layout.gpus) == (8, 1, 8)


def test_encoder_decoders_are_refused() -> None:
    with pytest.raises(Refused, match="one stack"):
        work_of(calc.load_model("transformer-base"))


def test_a_recurrence_is_a_kernel_of_its_own() -> None:
    """Qwen3-Next. Norms two a layer, the router's product and its choice, gates of shared experts and their last
    matrix; of 36 layers a product of x, convolution, recurrence, norm and the last matrix; of 12 a product of x, two
    norms, rotation, scores and the last matrix; a norm and the head."""
    shared = 2 + 2 + 2
    assert work_of(calc.load_model("qwen3-next-80b-a3b")).kernels == 36 * (shared + 5) + 12 * (shared + 6) + 2
