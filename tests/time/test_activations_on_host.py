"""Activations on the host in a step: closed forms, what computing hides, and arrays against plans alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calc
from calc.charts.plans import rows_of
from calc.errors import Refused
from calc.memory.totals import memory_ranks
from calc.memory.training import TrainingRank
from calc.time import predict, speed_of
from calc.time.schedule.chrome import chrome_trace
from calc.time.schedule.of_run import timeline_of
from calc.time.step.waterfall import waterfall
from tests.time.columns import agreeing

ON: dict[str, Any] = {"phase": "training", "cluster": "dgx-h100", "checkpointing": "none", "seq": 4096}
DOCS = Path(__file__).parents[2] / "docs"
LINK = 0.77 * 64e9
"""Bytes a second, one way, of PCIe 5.0 x16."""


def test_modules_that_predict_further_tokens_keep_theirs_on_the_device() -> None:
    words: dict[str, Any] = {"phase": "training", "dp": 8, "ep": 8, "zero": 1, "seq": 256}
    spec = calc.load_model("deepseek-v3")
    plain, more = (predict(spec, "h100-sxm", offload="activations", mtp=mtp, **words) for mtp in (False, True))
    copies = [sum(row.seconds for row in found.kernels if row.kernel.component == "offload") for found in (plain, more)]
    assert copies[0] == copies[1] > 0
    assert more.seconds > plain.seconds


@pytest.mark.parametrize(("micro_batches", "layers"), [(1, None), (3, None), (1, 28)])
def test_a_step_is_longer_by_what_nothing_hides(micro_batches: int, layers: int | None) -> None:
    """Each way as long as the bytes at the link's rate, but for what passes beside all layers but one."""
    spec = calc.load_model("llama-3-8b")
    words: dict[str, Any] = ON | {"dp": 8, "zero": 3, "micro_batches": micro_batches}
    plain, host = (
        predict(spec, "h100-sxm", **words, **own) for own in ({}, {"offload": "activations", "offload_layers": layers})
    )
    (rank,) = memory_ranks(spec, host.run)
    assert isinstance(rank, TrainingRank)
    each = rank.host / LINK
    open_ = 0.0
    for stretch, directions in {"forward": ("forward",), "backward": ("backward", "recomputed")}.items():
        rows = [row for row in plain.kernels if row.kernel.direction in directions]
        computing = sum(row.seconds for row in rows) / micro_batches
        open_ += max(each - computing * (1 - 1 / 33), 0.0)
        (way,) = (row for row in host.kernels if row.kernel.component == "offload" and row.kernel.direction == stretch)
        assert way.seconds == pytest.approx(micro_batches * each)
    assert open_ > 0
    assert host.seconds - plain.seconds == pytest.approx(micro_batches * open_, rel=1e-9)
    bars = {bar.what: bar.seconds for bar in waterfall(host, speed_of("h100-sxm"))}
    assert bars["offload"] == pytest.approx(micro_batches * open_, rel=1e-9)
    assert sum(bars.values()) == pytest.approx(host.seconds, rel=1e-9)
    assert sum(host.by_component.values()) == pytest.approx(host.seconds, rel=1e-9)
    assert host.memory.peak is not None
    assert plain.memory.peak is not None
    assert host.memory.peak < plain.memory.peak
    assert host.interval.high / host.seconds > plain.interval.high / plain.seconds


def waits(layers: int, computing: float, copy: float, leaving: int) -> tuple[float, float]:
    """Seconds that the layers of a pass wait forward and back, layer by layer, as Transformer Engine's
    DefaultOffloadSynchronizer has it: of `layers`, `leaving` go; each computes and is copied for so long."""
    stay, compute, stream = layers - leaving, 0.0, 0.0
    left: list[float] = []
    for layer in range(layers):
        compute = max(compute, left[layer - stay]) if layer >= stay else compute
        compute += computing
        if layer < leaving:
            stream = max(stream, compute) + copy
            left.append(stream)
    forward, compute, stream, back = compute - layers * computing, 0.0, 0.0, {}
    for layer in reversed(range(layers)):
        coming = layer - (stay - 1)
        if 0 <= coming < leaving:
            stream = max(stream, compute) + copy
            back[coming] = stream
        compute = max(compute, back.get(layer, 0.0)) + computing
    return forward, compute - layers * computing


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("layers", [None, 31, 30, 29, 16, 1])
def test_layers_wait_for_those_that_leave(layers: int | None, batch: int) -> None:
    """Under Megatron-Core no more layers are on the GPU than stay: where one stays, no copy is hidden."""
    spec = calc.load_model("llama-3-8b")
    words: dict[str, Any] = ON | {"dp": 8, "zero": 1, "micro_batches": 2, "stack": "megatron-core", "batch": batch}
    plain, host = (
        predict(spec, "h100-sxm", **words, **own) for own in ({}, {"offload": "activations", "offload_layers": layers})
    )
    (rank,) = memory_ranks(spec, host.run)
    assert isinstance(rank, TrainingRank)
    leaving = layers or 31
    for place, stretch in enumerate(("forward", "backward")):
        computing = sum(row.seconds for row in plain.kernels if row.kernel.direction == stretch) / 2
        (way,) = (row for row in host.kernels if row.kernel.component == "offload" and row.kernel.direction == stretch)
        open_ = waits(32, computing / 33, rank.host / LINK / leaving, leaving)[place]
        assert way.seconds - way.hidden == pytest.approx(2 * open_, rel=1e-9, abs=1e-12)
        assert (way.hidden == 0) is (leaving == 31)


def test_what_the_documents_say() -> None:
    spec = calc.load_model("llama-3-8b")
    words: dict[str, Any] = ON | {"dp": 8, "zero": 3, "seq": 8192}
    plain, host = (predict(spec, "h100-sxm", offload=name, **words) for name in ("none", "activations"))
    (before,), (rank,) = (memory_ranks(spec, each.run) for each in (plain, host))
    assert isinstance(rank, TrainingRank)
    gib = [size / 2**30 for size in (before.terms["activations"], rank.terms["activations"], rank.host)]
    text = " ".join((DOCS / "memory.md").read_text().split())
    assert f"has {gib[0]:.1f} GiB of activations on the GPU, or {gib[1]:.1f} with {gib[2]:.1f} on the host" in text
    text = " ".join((DOCS / "prediction.md").read_text().split())
    assert (
        f"each way takes {rank.host / LINK:.2f} s, and the step {host.seconds:.2f} s instead of {plain.seconds:.2f}"
        in text
    )
    words |= {"stack": "megatron-core", "zero": 1}
    plain, *others = (
        predict(spec, "h100-sxm", **words, **own)
        for own in ({}, *({"offload": "activations", "offload_layers": layers} for layers in (31, 30, 16)))
    )
    found = [f"{each.seconds:.2f}" for each in others]
    assert (
        f"under Megatron-Core the step is {plain.seconds:.2f} s, with 31 layers' on the host {found[0]}, with 30 "
        f"{found[1]}, and with 16 {found[2]}" in text
    )


@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_copies_are_a_stream_of_the_timeline(checkpointing: str) -> None:
    """Each within the pass that it runs beside."""
    spec, speed = calc.load_model("llama-3-8b"), speed_of("h100-sxm")
    words: dict[str, Any] = ON | {"checkpointing": checkpointing, "dp": 8, "zero": 3, "micro_batches": 2}
    run = predict(spec, "h100-sxm", offload="activations", **words).run
    drawn = timeline_of(spec, speed, run)
    (rank,) = memory_ranks(spec, run)
    assert isinstance(rank, TrainingRank)
    (events,) = drawn.stages
    passes = {(each.what, each.micro_batch): each for each in events if each.stream == "computing"}
    copies = [each for each in events if each.stream == "host"]
    assert [each.what for each in copies] == ["activations down", "activations up"] * 2
    for copy in copies:
        beside = passes["forward" if copy.what == "activations down" else "backward", copy.micro_batch]
        assert beside.start - 1e-9 <= copy.start < copy.end <= beside.end + 1e-9
        assert copy.end - copy.start == pytest.approx(rank.host / LINK)
    lines = {each["args"]["name"] for each in chrome_trace(drawn)["traceEvents"] if each["name"] == "thread_name"}
    assert lines == {"computing", "network", "host"}
    bars = rows_of(drawn)[0]
    assert sum(bar["end"] - bar["start"] for bar in bars) <= drawn.seconds * (1 + 1e-9)


def test_inputs_of_layers_pass_unseen() -> None:
    """Of checkpointed layers few bytes cross, while much is computed."""
    spec = calc.load_model("llama-3-8b")
    words: dict[str, Any] = ON | {"dp": 8, "zero": 3, "checkpointing": "full"}
    plain, host = (predict(spec, "h100-sxm", offload=name, **words) for name in ("none", "activations"))
    assert host.seconds == plain.seconds
    assert sum(row.hidden for row in host.kernels if row.kernel.component == "offload") > 0


@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-30b-a3b"])
def test_columns_are_the_plans_one_by_one(model: str) -> None:
    choices = {"tp": [1, 2, 4], "pp": [1, 1, 2], "dp": [1, 4], "ep": [1, 2], "batch": [1, 2], "micro_batches": [2, 4]}
    words: dict[str, Any] = ON | {"seq": 1024, "offload": "activations", "stack": "megatron-core"}
    assert agreeing(model, choices, 20, 5, **words) > 5


def test_a_link_that_nobody_knows_is_refused() -> None:
    with pytest.raises(Refused, match="gpu: expected with --offload activations one whose link to the host is known"):
        predict(calc.load_model("gpt2"), "rtx-3070", **(ON | {"seq": 512, "offload": "activations", "cluster": None}))


def test_what_machines_have_no_room_for_does_not_fit() -> None:
    """Eight GPUs of a DGX H100 share 2 TB: of each, 283 GB at batch 8 with blocks of up to twice the size."""
    spec, words = calc.load_model("llama-3-8b"), ON | {"gpus": 8, "zero": 3, "recipe": "bf16", "seq": 8192}
    for batch, fits in ((2, True), (8, False)):
        found = predict(spec, "h100-sxm", offload="activations", execution="compiled", batch=batch, **words).memory
        assert found.fits is fits
        assert ("on the host" in found.sentence()) is not fits
