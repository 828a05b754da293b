"""Predicted steps against closed forms, on devices known by heart."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calc
from calc import Refused, Run, load_model
from calc.quantities.traffic import Formats, forward_traffic, training_traffic
from calc.spec import Bottleneck, Lora, ModelSpec, Shorthand
from calc.spec.catalogue import device_names, load_device
from calc.spec.run.execution import EXECUTIONS
from calc.time import Prediction, predict, roof, roofline, speed_of
from calc.time.device.profile import Launch
from calc.time.models.collective import EFFICIENCY
from calc.trace.functions import Matmul
from calc.units import binary
from tests.strategies import latent, recurrent, specs
from tests.time.laid import operations
from tests.time.toys import toy

SMALL = Shorthand(d_model=64, n_layers=3, n_heads=4, vocab_size=500, max_seq_len=128).expand()
LLAMA = Shorthand(
    d_model=64,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    vocab_size=512,
    gated=True,
    bias=False,
    norm="rmsnorm",
    position="rope",
    tied=False,
).expand()
GIGA = 1e9


def flops(spec: ModelSpec, phase: str, convention: str = "torch", **query: Any) -> float:
    return calc.flops(spec, Run(phase=phase, convention=convention, **query)).total  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", [SMALL, LLAMA, calc.load_model("mixtral-8x7b")], ids=["gpt", "llama", "mixtral"])
def test_where_only_products_take_time_a_pass_takes_its_flops(spec: ModelSpec) -> None:
    found = predict(spec, toy(rate=GIGA), batch=2, seq=64, execution="eager")
    assert found.seconds * GIGA == pytest.approx(flops(spec, "forward", batch=2, seq=64), rel=1e-9)


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full", "selective-op"])
@pytest.mark.parametrize("spec", [SMALL, LLAMA], ids=["gpt", "llama"])
def test_where_only_products_take_time_a_step_takes_its_flops(spec: ModelSpec, checkpointing: Any) -> None:
    options = {"batch": 2, "seq": 64, "checkpointing": checkpointing}
    found = predict(spec, toy(rate=GIGA), phase="training", dtype="bf16", execution="eager", **options)
    assert found.seconds * GIGA == pytest.approx(flops(spec, "training", **options), rel=1e-9)


def test_a_token_takes_its_flops() -> None:
    device = toy(rate=GIGA)
    found = predict(SMALL, device, phase="decode", batch=3, context=40, execution="eager")
    assert found.seconds * GIGA == pytest.approx(flops(SMALL, "decode", batch=3, context=40), rel=1e-9)
    assert found.tokens_per_second == pytest.approx(3 / found.seconds)
    assert found.mfu is None


def test_a_prompt_has_the_logits_of_its_last_token() -> None:
    every, last = (
        predict(SMALL, toy(rate=GIGA), phase=phase, seq=100, execution="eager").by_component["lm_head"]
        for phase in ("forward", "prefill")
    )
    assert every == pytest.approx(100 * last)


@pytest.mark.parametrize("execution", ["eager", "sdpa", "compiled"])
@pytest.mark.parametrize("spec", [SMALL, LLAMA], ids=["gpt", "llama"])
def test_kernels_move_what_the_traffic_of_a_pass_is(spec: ModelSpec, execution: Any) -> None:
    found = predict(spec, toy(GIGA, GIGA), batch=2, seq=64, execution=execution)
    moved = sum(row.kernel.calls * row.kernel.bytes for row in found.kernels if row.kernel.function != "transpose")
    traffic = forward_traffic(spec, Run(batch=2, seq=64, execution=execution))
    assert moved == pytest.approx(sum(traffic.values()), rel=1e-9)


def test_kernels_move_about_what_the_traffic_of_a_step_is() -> None:
    """Beside it the loss, the optimizer, biases' gradients and zeros of the tables' gradients."""
    found = predict(LLAMA, toy(GIGA, GIGA), phase="training", batch=4, seq=128, dtype="fp32", execution="compiled")
    beside = ("cross_entropy", "adamw", "accumulate", "sum", "fill", "copy")
    moved = sum(row.kernel.calls * row.kernel.bytes for row in found.kernels if row.kernel.function not in beside)
    traffic = training_traffic(
        LLAMA, Run(batch=4, seq=128, execution="compiled"), Formats("fp32", "fp32", "fp32", "fp32")
    )
    assert moved == pytest.approx(sum(traffic.values()), rel=0.1)


def test_adamw_moves_seven_copies_of_the_weights_in_fp32() -> None:
    found = predict(SMALL, toy(GIGA, GIGA), phase="training", dtype="fp32", seq=16)
    adamw = next(row for row in found.kernels if row.kernel.function == "adamw")
    assert adamw.kernel.bytes == 28 * sum(calc.parameters(SMALL).values())
    assert adamw.seconds == pytest.approx(adamw.kernel.bytes / GIGA)


def test_where_launches_take_the_time_a_pass_takes_its_launches() -> None:
    launch = Launch(eager=1e-3, backward=2e-3, graph=1e-6)
    eager = predict(SMALL, toy(launch=launch), seq=16, execution="sdpa")
    calls = sum(row.kernel.calls * max(row.kernel.launches, 1) for row in eager.kernels)
    assert eager.seconds == pytest.approx(1e-3 * calls)
    assert eager.bound == "launch"
    assert eager.by_bound == {"launch": pytest.approx(eager.seconds)}
    graph = predict(SMALL, toy(launch=launch), seq=16, execution="graph")
    assert graph.seconds < eager.seconds / 500


def test_the_host_hides_behind_long_kernels_but_not_on_a_cpu() -> None:
    launch = Launch(eager=1e-6)
    kernels = predict(SMALL, toy(rate=1e6), seq=64).seconds
    assert predict(SMALL, toy(rate=1e6, launch=launch), seq=64).seconds == pytest.approx(kernels)
    # Measured calls of a CPU hold their own dispatch; those that fell back on copies have it on top.
    on_cpu = predict(SMALL, toy(rate=1e6, launch=launch, kind="cpu"), seq=64, execution="eager")
    assert on_cpu.seconds > predict(SMALL, toy(rate=1e6, kind="cpu"), seq=64, execution="eager").seconds


def test_tensor_parallel_ranks_share_the_products() -> None:
    one = predict(LLAMA, toy(GIGA), phase="training", dtype="bf16", seq=64, execution="eager")
    two = predict(
        LLAMA,
        toy(GIGA, collectives=_free()),
        phase="training",
        dtype="bf16",
        seq=64,
        execution="eager",
        tp=2,
        optimizer="adamw-bf16",
    )
    assert two.seconds == pytest.approx(one.seconds / 2, rel=1e-9)
    assert {row.kernel.function for row in two.kernels if row.kernel.component == "network"} == {
        "all_gather",
        "reduce_scatter",
    }


def test_a_pipeline_waits_for_its_filling() -> None:
    spec = Shorthand(d_model=64, n_layers=4, n_heads=4, vocab_size=1, max_seq_len=128).expand()
    options: dict[str, Any] = {"phase": "training", "dtype": "bf16", "seq": 64, "execution": "eager"}
    alone = predict(spec, toy(GIGA), **options).seconds
    for micro_batches in (2, 8):
        plan: dict[str, Any] = {"pp": 2, "micro_batches": micro_batches}
        found = predict(spec, toy(GIGA, collectives=_free()), **plan, **options)
        # Half of the layers, and on the last stage a head of one logit.
        assert found.seconds == pytest.approx((micro_batches + 1) * alone / 2, rel=0.01)
        # The last stage, which has the head too, waits for the first.
        assert found.by_component["bubble"] == pytest.approx(found.seconds / (micro_batches + 1), rel=0.01)
        assert found.by_component["bubble"] < found.seconds / (micro_batches + 1)


class _Free:
    def knows(self, ranks: Any) -> Any:
        return ranks > 0

    def seconds(self, nbytes: Any, ranks: Any) -> Any:
        return nbytes * 0.0

    def interval(self, level: float) -> tuple[float, float]:
        return 1.0, 1.0


def _free() -> dict[str, _Free]:
    return dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"), _Free())


def test_one_part_of_a_model_and_one_direction() -> None:
    whole = predict(SMALL, toy(GIGA), phase="training", dtype="fp32", seq=64)
    layers = predict(SMALL, toy(GIGA), phase="training", dtype="fp32", seq=64, within="layers")
    back = predict(SMALL, toy(GIGA), phase="training", dtype="fp32", seq=64, within="layers", directions=("backward",))
    assert layers.seconds == pytest.approx(whole.seconds - whole.by_component["lm_head"])
    # Products twice, attention in one kernel two and a half times.
    attention = next(row for row in layers.kernels if row.kernel.function == "attention").seconds
    assert back.seconds == pytest.approx(2 * (layers.seconds - back.seconds) + 0.5 * attention)


def test_the_interval_adds_kinds_in_square() -> None:
    found = predict(SMALL, toy(GIGA, GIGA), seq=64, execution="sdpa")
    kinds = {"product": 0.0, "pass": 0.0, "attention": 0.0}
    for row in found.kernels:
        kind = "attention" if row.kernel.function == "attention" else "product" if row.kernel.shape else "pass"
        kinds[kind] += row.seconds
    sides = (0.1 * kinds["product"], 0.2 * kinds["pass"], 0.1 * kinds["attention"])
    step = 0.07 * found.seconds
    below = (sum(side**2 for side in sides) + step**2) ** 0.5
    assert found.interval.level == 0.9
    assert found.seconds - found.interval.low == pytest.approx(below, rel=0.05)
    assert found.interval.low < found.seconds < found.interval.high


def test_components_and_rooflines_add_up() -> None:
    found = predict(calc.load_model("llama-3-8b"), "h100-sxm", phase="training", seq=2048, checkpointing="full")
    assert sum(found.by_component.values()) == pytest.approx(found.seconds)
    points = roofline(found)
    assert sum(point.share for point in points) <= 1 + 1e-9
    assert [point.seconds for point in points] == sorted((point.seconds for point in points), reverse=True)
    limits = roof(speed_of("h100-sxm"))
    for point in points:
        assert point.rate <= limits.peaks["bf16"]
    assert limits.ridges["bf16"] == pytest.approx(989.4e12 / 3.35e12)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_large_messages_have_one_bus_bandwidth_whatever_the_ranks(ranks: int) -> None:
    """That of a device of which no collective was measured: the prior's part of its link in one direction."""
    link = load_device("mi300x").link
    assert link is not None
    found = predict(calc.load_model("llama-3-8b"), "mi300x", phase="training", dp=ranks)
    (sums,) = [point for point in roofline(found) if point.function == "all_reduce"]
    assert sums.bus_bandwidth == pytest.approx(EFFICIENCY * link.value / 2, rel=0.001)
    assert sums.bandwidth * 2 * (ranks - 1) / ranks == pytest.approx(sums.bus_bandwidth)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(16, 512),
    st.sampled_from(["forward", "prefill", "decode", "training"]),
    st.sampled_from(["sdpa", "compiled", "graph"]),
    st.sampled_from(["h100-sxm", "a100-sxm-80gb", "b200", "l40s"]),
)
def test_more_work_is_never_much_faster(batch: int, seq: int, phase: Any, execution: Any, gpu: str) -> None:
    def at(batch: int, seq: int) -> Prediction:
        return predict(LLAMA, gpu, phase=phase, batch=batch, seq=seq, context=seq, execution=execution)

    first = at(batch, seq)
    assert 0 < first.interval.low < first.seconds < first.interval.high
    for other in (at(2 * batch, seq), at(batch, 2 * seq)):
        assert other.seconds >= 0.95 * first.seconds


PHASES: tuple[Any, ...] = ("decode", "training")


@pytest.mark.parametrize("execution", [each for each in EXECUTIONS if each != "megatron"])
def test_every_device_has_a_time_or_a_reason(execution: Any) -> None:
    """On one and on two of each: links that were measured and that no datasheet tells, or the other way round."""
    timed = set()
    for name, tp, phase in product(device_names(), (1, 2), PHASES):
        with suppress(Refused):
            assert (
                predict(LLAMA, name, phase=phase, batch=2, seq=64, context=64, execution=execution, tp=tp).seconds > 0
            )
            timed.add((name, tp))
    assert {("l40s", 1), ("l40s", 2), ("h100-sxm", 2)} <= timed


def test_executions_come_in_their_order() -> None:
    spec = calc.load_model("gpt2")
    times = [
        predict(spec, "h100-sxm", phase="training", batch=8, seq=1024, execution=execution).seconds
        for execution in ("eager", "sdpa", "compiled", "graph")
    ]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("where", "options", "said"),
    [
        ("h1000", {}, "GPU: expected a device of the catalogue"),
        ("h100", {}, "which differ"),
        ("v100-sxm2-16gb", {"dtype": "bf16"}, "published peak"),
        ("h100-sxm", {"dtype": "int7"}, "dtype"),
        ("h100-sxm", {"phase": "training", "dtype": "bf17"}, "dtype: expected in training a recipe, one of"),
        ("h100-sxm", {"phase": "sleep"}, "phase"),
        ("h100-sxm", {"batch": 0}, "batch: expected a whole number from 1 on"),
        ("h100-sxm", {"execution": "fast"}, "execution"),
        ("h100-sxm", {"checkpointing": "full"}, "checkpointing: expected none in forward"),
        ("h100-sxm", {"tp": 3}, "tp: expected a divisor"),
        ("h100-sxm", {"pp": 2, "phase": "decode"}, "plan: expected dp and tp alone"),
        ("h100-sxm", {"dp": 16, "phase": "training"}, "beyond a domain of 8 GPUs"),
        ("l4", {"tp": 2}, "no known link"),
        ("h100-sxm", {"within": "nowhere"}, "within"),
    ],
)
def test_what_cannot_be_told_is_refused(where: str, options: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"seq": 32} | options
    with pytest.raises(Refused, match=said):
        predict(LLAMA, where, **asked)


@pytest.mark.parametrize("where", ["l4", "rtx-4090"])
@pytest.mark.parametrize("options", [{"dp": 2, "phase": "training"}, {"tp": 2, "phase": "decode"}])
def test_gpus_without_a_link_take_the_network_within_a_node_too(where: str, options: dict[str, Any]) -> None:
    slow, fast = (predict(LLAMA, where, seq=32, network=network, **options) for network in (1e9, 50e9))
    assert slow.seconds > fast.seconds
    assert any("within a node too" in note for note in fast.notes)
    linked = predict(LLAMA, "h100-sxm", seq=32, network=1e9, **options)
    assert linked.seconds == predict(LLAMA, "h100-sxm", seq=32, **options).seconds


def test_adapters_and_models_that_do_not_decode_are_refused() -> None:
    tuned = SMALL.model_copy(update={"adapter": Bottleneck(width=4)})
    with pytest.raises(Refused, match="adapter"):
        predict(tuned, "h100-sxm", seq=32)
    with pytest.raises(Refused, match="phase"):
        predict(calc.load_model("bert-base"), "h100-sxm", phase="decode")


def test_low_rank_updates_leave_out_the_frozen_weights() -> None:
    """Going back through a frozen matrix is one product, not two: of four of forward and back in all, no third."""
    spec = SMALL.model_copy(update={"adapter": Lora(rank=1, targets=("up_proj",))})
    words: dict[str, Any] = {"phase": "training", "dtype": "bf16", "seq": 64, "execution": "sdpa", "within": "layers"}
    whole, tuned = (predict(each, toy(GIGA), **words) for each in (SMALL, spec))
    products = [sum(row.seconds for row in it.kernels if row.kernel.use == "wgrad") for it in (whole, tuned)]
    assert 0 < products[1] < 0.05 * products[0]
    for tp in (2,):
        assert predict(spec, toy(GIGA, collectives=_free()), **words, tp=tp).seconds < tuned.seconds


def test_a_device_without_measurements_says_so() -> None:
    found = predict(SMALL, "mi300x", seq=32)
    assert found.basis == "datasheet"
    assert any("no measurement on this device" in note for note in found.notes)
    assert all(row.timing.source == "prior" for row in found.kernels)


@settings(max_examples=40, deadline=None)
@given(specs() | specs(recurrent) | specs(latent), st.sampled_from(["eager", "sdpa", "compiled", "graph"]))
def test_models_of_any_structure_have_a_time(spec: ModelSpec, execution: Any) -> None:
    phases: list[Any] = ["forward", "training", *(["decode", "prefill"] if spec.decodes else [])]
    for phase in phases:
        found = predict(spec, "a100-sxm-80gb", phase=phase, batch=2, seq=32, context=31, execution=execution)
        assert 0 < found.interval.low < found.seconds < found.interval.high < 10
        assert sum(found.by_component.values()) == pytest.approx(found.seconds)


@pytest.mark.parametrize("name", sorted(calc.preset_names()))
def test_every_preset_has_a_time(name: str) -> None:
    spec = calc.load_model(name)
    seq = min(256, spec.max_seq_len or 256)
    phases: list[Any] = ["forward", "training", *(["decode"] if spec.decodes else [])]
    for phase in phases:
        found = predict(spec, "h100-sxm", phase=phase, seq=seq, context=seq - 1)
        assert 0 < found.interval.low < found.seconds < found.interval.high < 100


def test_the_mfu_of_a_prompt_counts_the_logits_of_its_last_token() -> None:
    found = predict(SMALL, toy(rate=GIGA), phase="prefill", seq=100, execution="eager")
    assert found.peak is not None
    assert found.mfu is not None
    head = 2 * 64 * 500
    expected = flops(SMALL, "training", "palm", seq=100) / 3 - 99 * head
    assert found.mfu * found.peak * found.seconds == pytest.approx(expected)


@pytest.mark.parametrize("phase", ["training", "prefill", "decode"])
@pytest.mark.parametrize("execution", ["eager", "sdpa", "compiled", "graph"])
@pytest.mark.parametrize("model", ["llama-3-8b", "gpt2", "qwen3-30b-a3b"])
def test_nothing_is_faster_than_the_memory_of_a_datasheet(model: str, execution: Any, phase: Any) -> None:
    found = predict(load_model(model), "a100-sxm-80gb", phase=phase, seq=512, context=512, execution=execution)
    bandwidth = load_device("a100-sxm-80gb").bandwidth.value
    assert not [point.path for point in roofline(found) if not point.flops and point.bandwidth > bandwidth]


def test_what_cannot_fit_is_said_with_what_is_held_at_the_peak() -> None:
    small, large = load_model("gpt2"), load_model("llama-3-8b")
    room = load_device("a100-sxm-80gb").usable
    cases: tuple[tuple[str, dict[str, Any], bool], ...] = (
        ("training", {}, False),
        ("training", {"dp": 8, "zero": 3}, True),
        ("training", {"tp": 8}, True),
        ("prefill", {}, True),
    )
    for phase, plan, fits in cases:
        found = predict(large, "a100-sxm-80gb", phase=phase, seq=64, **plan)
        said = [note for note in found.notes if note.startswith("does not fit")]
        assert bool(said) is not fits
        if said:
            held = 16 * calc.estimate(large, "params").value
            assert held > room
            assert held < found.memory.peak < 1.05 * held
            assert f"{binary(found.memory.peak)} at the peak, of {binary(room)}" in said[0]
    assert not any("fit" in note for note in predict(small, "a100-sxm-80gb", phase="training", seq=64).notes)


def test_a_prediction_says_whose_attention_it_is_where_that_is_not_pytorchs() -> None:
    spec = load_model("llama-3-8b")
    told = "attention takes as long as in vllm_flash_attn_fa3; `attention` tells of PyTorch's own kernels"
    assert told in predict(spec, "h100-sxm", phase="prefill", seq=2048).notes
    assert told not in predict(spec, "h100-sxm", phase="training", seq=2048).notes
    assert told not in predict(spec, "a100-sxm-80gb", phase="prefill", seq=2048).notes


def test_no_format_falls_back_to_the_time_of_another() -> None:
    """A format of four bits without scales has no kernel; a narrow cache takes less time."""
    spec, words = calc.load_model("llama-3-8b"), {"phase": "decode", "batch": 16, "context": 4096}
    with pytest.raises(Refused, match="dtype: expected int4:g128 or another format"):
        predict(spec, speed_of("l4"), dtype="int4", **words)

    def seconds(cache: str | None, **more: Any) -> float:
        return predict(spec, speed_of("l4"), cache_dtype=cache, **{**words, **more}).seconds

    assert seconds("bf16") == seconds(None)
    read = calc.kv_cache(spec, 16, 4096).total_bytes / 2 / 300e9  # half a cache at the datasheet's bandwidth
    assert seconds("bf16") - seconds("fp8") > read
    assert seconds("fp32") - seconds("bf16") > 2 * read
    assert seconds("fp8", dtype="fp8") < seconds("bf16", dtype="fp8")


@pytest.mark.parametrize("phase", ["decode", "training"])
def test_a_loop_over_experts_launches_for_each_that_is_reached(phase: Any) -> None:
    """Work and bytes of products stay; each product of an expert is a call of its own, eight a layer where all are
    reached."""
    spec = load_model("mixtral-8x7b")
    asked: dict[str, Any] = {
        "batch": 512,
        "seq": 1,
        "context": 64,
        "phase": phase,
        "routing": "balanced",
        "execution": "eager",
    }
    one, many = (list(operations(spec, Run(**asked, experts=experts))) for experts in ("grouped", "loop"))
    products = [
        [each for each in some if "expert" in each.path and isinstance(each.shape, Matmul)] for some in (one, many)
    ]
    assert products[0]
    for together, alone in zip(*products, strict=True):
        assert alone.calls == pytest.approx(8 * together.calls)
        assert alone.calls * alone.flops == pytest.approx(together.calls * together.flops)
        assert alone.calls * alone.bytes == pytest.approx(together.calls * together.bytes)
        assert isinstance(alone.shape, Matmul)
        assert isinstance(together.shape, Matmul)
        assert (alone.shape.m, alone.shape.groups) == (together.shape.m, 1)
