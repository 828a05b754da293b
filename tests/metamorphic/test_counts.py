"""What must hold between two answers about what is counted, whatever the model: no number is known beforehand."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import calc
from calc.ask.solve import NoSolution, solve
from calc.ask.sweep import sweep
from calc.errors import Refused
from calc.memory.totals import memory_ranks
from calc.spec import Attention, Embedding, LayerGroup, Mla, Mlp, ModelSpec, Moe
from calc.spec.run import KERNELS, ExecutionName, Run
from tests.strategies import latent, recurrent, specs

ANY = specs() | specs(recurrent) | specs(latent)
FEW = settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.filter_too_much],
)


def value(spec: ModelSpec, quantity: str, **words: Any) -> Any:
    return calc.estimate(spec, quantity, **words).value


def _has_places(spec: ModelSpec) -> bool:
    """Whether experts have so many places for a batch, rounded up once for all of it."""
    return any(isinstance(group.channel, Moe) and group.channel.capacity_factor is not None for group in spec.layers)


@FEW
@given(ANY, st.integers(1, 9), st.integers(1, 300))
def test_what_a_batch_costs_is_linear_in_it(spec: ModelSpec, batch: int, seq: int) -> None:
    for quantity, words in (("flops.decode", {"context": seq}), ("kv_cache", {"seq": seq})):
        if quantity != "kv_cache" and _has_places(spec):
            continue
        assert value(spec, quantity, batch=batch, **words) == batch * value(spec, quantity, batch=1, **words)


@FEW
@given(specs(), st.integers(1, 9), st.integers(1, 300))
def test_products_of_a_pass_are_linear_in_the_batch(spec: ModelSpec, batch: int, seq: int) -> None:
    """Of attention; what other mixers make of positions alone is made once a pass."""
    assume(not _has_places(spec))
    assert value(spec, "flops.forward", batch=batch, seq=seq) == batch * value(spec, "flops.forward", batch=1, seq=seq)


@FEW
@given(ANY, st.integers(1, 12), st.integers(0, 300), st.sampled_from(["balanced", "uniform", "power-law:1.5"]))
def test_bytes_of_weights_rise_with_the_batch_and_never_beyond_all_of_them(
    spec: ModelSpec, batch: int, context: int, routing: str
) -> None:
    """Without experts they do not change; with them each sequence more reaches fewer new ones than the one before."""
    asked = {"context": context, "routing": routing, "execution": "compiled"}
    one, some, more, most = (
        calc.estimate(spec, "traffic.decode", batch=n, **asked).terms["weights"] for n in (1, batch, batch + 1, 10**9)
    )
    rows = (more - some) * batch
    assert one <= some <= more
    if not any(isinstance(group.channel, Moe) for group in spec.layers):
        assert isinstance(spec.embedding, Embedding)
        table = 2 * (spec.embedding.d_embed or spec.d_model)
        assert more - some <= 4 * table + 8 * spec.d_model
    else:
        # Concave: what the next sequence adds is at most the mean of what those before added.
        assert rows <= (some - one) + some * 1e-9 + one
    assert some <= most


@FEW
@given(specs() | specs(latent), st.integers(1, 400), st.integers(1, 200))
def test_decoding_costs_more_behind_more_tokens(spec: ModelSpec, context: int, more: int) -> None:
    for quantity in ("flops.decode", "traffic.decode"):
        assert value(spec, quantity, context=context) <= value(spec, quantity, context=context + more)
    assert value(spec, "kv_cache", seq=context) <= value(spec, "kv_cache", seq=context + more) + 2**20


@FEW
@given(specs(), st.sampled_from(["fp8", "int8"]), st.integers(1, 300))
def test_a_cache_of_half_the_bytes_is_half_a_cache(spec: ModelSpec, narrow: str, seq: int) -> None:
    assert 2 * value(spec, "kv_cache", seq=seq, cache_dtype=narrow) == value(spec, "kv_cache", seq=seq)


@FEW
@given(specs(), st.sampled_from([1, 2, 3]), st.sampled_from([2, 4, 8]), st.sampled_from(KERNELS))
def test_what_is_kept_falls_with_zero_and_with_ranks(
    spec: ModelSpec, zero: int, dp: int, execution: ExecutionName
) -> None:
    """Of many layers and a small table: what is gathered, and reduced, for a moment is a layer's, or the table's."""
    many = (spec.layers[0].model_copy(update={"count": 64}),)
    spec = spec.model_copy(update={"layers": many, "vocab_size": 1, "embedding": Embedding(d_embed=None)})

    def states(**plan: Any) -> int:
        rank = max(memory_ranks(spec, Run(mode="training", seq=16, execution=execution, **plan)), key=lambda r: r.peak)
        return sum(rank.terms[name] for name in ("weights", "gradients", "optimizer"))

    found = [states(dp=dp, zero=stage) for stage in range(zero + 1)]
    assert found == sorted(found, reverse=True)
    assert states(dp=2 * dp, zero=zero) <= found[-1]


@FEW
@given(specs(), st.sampled_from([2, 3]), st.sampled_from(["training", "inference"]))
def test_a_rank_holds_less_of_a_model_that_is_divided(spec: ModelSpec, tp: int, mode: Any) -> None:
    def peak(n: int) -> int:
        run = Run(mode=mode, seq=24, tp=n, execution="sdpa", sequence_parallel=False)
        return max(rank.peak for rank in memory_ranks(spec, run))

    try:
        whole, part = peak(1), peak(tp)
    except Refused:
        assume(False)
        raise
    assert part <= whole


@FEW
@given(ANY, st.sampled_from(["batch", "seq", "vocab_size"]), st.lists(st.integers(1, 400), min_size=2, max_size=4))
def test_a_sweep_is_its_points(spec: ModelSpec, size: str, column: list[int]) -> None:
    for quantity in ("params", "flops.training", "traffic.forward", "memory.total", "memory.peak"):
        words: dict[str, Any] = {"execution": "sdpa"} if quantity.startswith("memory") else {}
        if size != "vocab_size" and quantity == "params":
            continue

        def alone(x: int, quantity: str = quantity, words: dict[str, Any] = words) -> Any:
            if size == "vocab_size":
                return value(spec.model_copy(update={"vocab_size": x}), quantity, **words)
            return value(spec, quantity, **{size: x}, **words)

        try:
            points = [alone(x) for x in column]
        except Refused:
            continue
        found = sweep(spec, [quantity], {size: numpy.array(column)}, **words)[quantity]
        assert found == pytest.approx(numpy.array(points, dtype=float), rel=1e-9)


def test_of_one_head_no_copy_is_made_in_a_column_of_batches_either() -> None:
    """Matrices of several sequences and one head lie as products want them."""
    sizes: dict[str, Any] = {"kv_rank": 34, "d_nope": 46, "d_rope": 52, "d_value": 29}
    layers = (LayerGroup(name="a", count=6, mixer=Mla(n_heads=1, **sizes), channel=Mlp()),)
    spec = ModelSpec(d_model=24, vocab_size=40, layers=layers)
    words: dict[str, Any] = {"seq": 30, "execution": "sdpa"}
    column = [1, 2, 7]
    points = [value(spec, "memory.total", batch=n, **words) for n in column]
    assert sweep(spec, ["memory.total"], {"batch": numpy.array(column)}, **words)["memory.total"].tolist() == points


def _no_longer_grows(spec: ModelSpec, size: str) -> None:
    """A cache of a window alone does not change with the tokens beyond it."""
    mixer = spec.layers[0].mixer
    assert size == "seq"
    assert isinstance(mixer, Attention)
    assert mixer.window is not None


@FEW
@given(specs(), st.sampled_from(["n_layers", "vocab_size", "seq"]), st.integers(2, 200))
def test_solving_gives_back_what_was_put_in(spec: ModelSpec, size: str, x: int) -> None:
    spec = spec.model_copy(update={"layers": spec.layers[:1]})
    quantity = "kv_cache" if size == "seq" else "params"
    if size == "seq":
        target = value(spec, quantity, seq=x)
    elif size == "vocab_size":
        target = value(spec.model_copy(update={"vocab_size": x}), quantity)
    else:
        layers = (spec.layers[0].model_copy(update={"count": x}),)
        target = value(spec.model_copy(update={"layers": layers}), quantity)
    try:
        found = solve(spec, quantity, target, size)
    except NoSolution:
        _no_longer_grows(spec, size)
        return
    except Refused as refused:
        assert "depends on" in str(refused)
        _no_longer_grows(spec, size)
        return
    best = found.candidates[0]
    assert best.value == target
