"""What must hold between two answers about one large model in other formats, readings, routings and plans."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, Mla, Mlp, ModelSpec, Moe, Norm
from calc.time import predict, roofline, step_times

FEW = settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.generate])
GPU, BANDWIDTH = "mi300x", 5.3e12
"""A device of which the datasheet alone is known, and its bytes a second: nothing measured has steps of tiles."""

READINGS: tuple[dict[str, Any], ...] = ({}, {"latent_reading": "absorbed"}, {"latent_reading": "expanded"})


@st.composite
def large(draw: st.DrawFn, *, latent: bool = False, routed: bool = False) -> ModelSpec:
    """A decoder whose matrices take longer to read than a kernel takes to start."""
    heads, layers = 8 * draw(st.integers(2, 8)), draw(st.integers(4, 20))
    kv = draw(st.sampled_from([n for n in (1, 2, 4, 8) if heads % n == 0]))
    rank = 64 * draw(st.integers(4, 8))
    ranks: dict[str, Any] = {"q_rank": 512, "kv_rank": rank, "d_nope": 128, "d_rope": 64, "d_value": 128}
    mixer = Mla(n_heads=heads, **ranks) if latent else Attention(n_heads=heads, n_kv_heads=kv, d_head=128)
    experts = Moe(n_experts=8 * draw(st.integers(2, 8)), top_k=draw(st.integers(1, 8)), d_expert=1024)
    channel = experts if routed else Mlp(d_ff=256 * draw(st.integers(16, 40)))
    group = LayerGroup(name="layer", count=layers, mixer=mixer, channel=channel, norm=Norm())
    return ModelSpec(
        d_model=128 * heads,
        vocab_size=1000 * draw(st.integers(8, 100)),
        embedding=Embedding(),
        layers=(group,),
        head=Head(tied=False),
    )


def seconds(spec: ModelSpec, **words: Any) -> float:
    usual: dict[str, Any] = {"phase": "decode", "execution": "graph"}
    return predict(spec, GPU, **(usual | words)).seconds


@FEW
@given(large(), st.integers(1, 4), st.sampled_from(["fp8", "int8:g128", "int4:g128"]))
def test_weights_of_fewer_bytes_are_read_in_less_time(spec: ModelSpec, batch: int, narrow: str) -> None:
    """By four tenths of what a device saves at its bandwidth, at least; a format of unknown speed has no time."""
    words: dict[str, Any] = {"batch": batch, "context": 64}
    wide, few = (sum(calc.estimate(spec, "weights", dtype=name).terms.values()) for name in ("bf16", narrow))
    assert seconds(spec, **words) - seconds(spec, dtype=narrow, **words) >= 0.4 * (wide - few) / BANDWIDTH
    with pytest.raises(Refused, match="dtype"):
        seconds(spec, dtype="int4", **words)


@FEW
@given(large(), st.integers(8, 64), st.integers(4000, 20000))
def test_a_cache_of_fewer_bytes_is_read_in_less_time(spec: ModelSpec, batch: int, context: int) -> None:
    words: dict[str, Any] = {"batch": batch, "context": context}
    saved = calc.estimate(spec, "kv_cache", batch=batch, seq=context).value / 2
    assert seconds(spec, **words) - seconds(spec, cache_dtype="fp8", **words) >= 0.2 * saved / BANDWIDTH


@FEW
@given(large(), st.integers(1, 64), st.integers(500, 20000), st.sampled_from(["bf16", "fp8"]))
def test_beside_a_time_stands_all_that_is_held_meanwhile(
    spec: ModelSpec, batch: int, length: int, cache_dtype: str
) -> None:
    words: dict[str, Any] = {"batch": batch, "context": length, "cache_dtype": cache_dtype}
    held = predict(spec, GPU, phase="decode", **words).memory
    kept = calc.estimate(spec, "kv_cache", batch=batch, seq=length + 1, cache_dtype=cache_dtype).value
    assert held.peak is not None
    assert kept + calc.estimate(spec, "weights").value <= held.peak
    step = predict(spec, GPU, phase="training", batch=batch, seq=512).memory
    assert step.peak == calc.estimate(spec, "memory.peak", batch=batch, seq=512).value


@FEW
@given(large(latent=True), st.integers(1, 16), st.integers(2000, 20000))
def test_latents_that_are_absorbed_take_less_than_expanded_ones_and_are_the_default(
    spec: ModelSpec, batch: int, context: int
) -> None:
    words: dict[str, Any] = {"batch": batch, "context": context}
    for quantity in ("flops.decode", "traffic.decode"):
        usual, absorbed, expanded = (calc.estimate(spec, quantity, **words, **reading).value for reading in READINGS)
        assert usual == absorbed < expanded
    assert seconds(spec, **words) == seconds(spec, latent_reading="absorbed", **words)
    assert seconds(spec, **words) < seconds(spec, latent_reading="expanded", **words)
    held = [
        max(calc.estimate(spec, "memory.peak", mode="inference", batch=batch, seq=context, **reading).terms.values())
        for reading in READINGS[::2]
    ]
    assert held[0] <= held[1]


@FEW
@given(large(routed=True), st.integers(2, 30))
def test_the_more_evenly_tokens_choose_the_more_experts_are_read(spec: ModelSpec, batch: int) -> None:
    channel = spec.layers[0].channel
    assert isinstance(channel, Moe)
    words: dict[str, Any] = {"batch": batch, "context": 64}
    kinds = ("balanced", "uniform", "power-law:1")
    matrices = 2 * 3 * spec.d_model * channel.d_expert * spec.layers[0].count
    n, k = channel.n_experts, channel.top_k
    read = [calc.estimate(spec, "traffic.decode", routing=kind, **words).terms["weights"] for kind in kinds]
    met = min(n, batch * k) - n * (1 - (1 - k / n) ** batch)
    assert read == sorted(read, reverse=True)
    assert read[0] - read[1] == pytest.approx(met * matrices, rel=1e-6, abs=4 * matrices / 1e6)
    assert read[1] == calc.estimate(spec, "traffic.decode", **words).terms["weights"]
    times = [seconds(spec, routing=kind, **words) for kind in kinds[:2]]
    if met * matrices / BANDWIDTH > 0.005 * times[1]:
        assert times[0] - times[1] >= 0.4 * met * matrices / BANDWIDTH - 1e-9
    else:  # all experts are met either way, and uneven numbers of tokens alone take a little longer
        assert times[0] == pytest.approx(times[1], rel=0.01)


@FEW
@given(large(), st.sampled_from([2, 4, 8]), st.integers(1, 32), st.integers(500, 20000))
def test_a_rank_reads_all_keys_of_the_heads_that_it_has(spec: ModelSpec, tp: int, batch: int, context: int) -> None:
    """Ranks beyond the heads of keys read copies of them: no rank less than one head."""
    mixer = spec.layers[0].mixer
    assert isinstance(mixer, Attention)
    kept = calc.estimate(spec, "kv_cache", batch=batch, seq=context).value
    found = predict(spec, "h100-sxm", phase="decode", batch=batch, context=context, tp=tp)
    read = sum(point.bytes for point in roofline(found) if point.function == "attention")
    own = kept / min(tp, mixer.n_kv_heads or mixer.n_heads)
    assert own <= read <= 1.2 * own + 2**20 * spec.layers[0].count


@FEW
@given(
    large() | large(routed=True),
    st.sampled_from(["training", "prefill", "decode"]),
    st.lists(st.tuples(*[st.sampled_from([1, 2, 4])] * 3), min_size=2, max_size=3),
)
def test_plans_in_columns_are_plans_one_by_one(spec: ModelSpec, phase: Any, plans: list[tuple[int, int, int]]) -> None:
    tp, dp, batch = (list(column) for column in zip(*plans, strict=True))
    words: dict[str, Any] = {"phase": phase, "seq": 512, "context": 512}
    words |= {"zero": 1} if phase == "training" else {}
    found = step_times(spec, "h100-sxm", tp=tp, dp=dp, batch=batch, **words)
    for row, (one, many, n) in enumerate(plans):
        try:
            alone = predict(spec, "h100-sxm", tp=one, dp=many, batch=n, **words)
        except Refused:
            assert math.isnan(found.seconds[row])
            continue
        assert found.seconds[row] == pytest.approx(alone.seconds, rel=1e-9)
        assert found.peak is not None
        assert found.peak[row] == alone.memory.peak
    assume(not all(math.isnan(each) for each in found.seconds))
