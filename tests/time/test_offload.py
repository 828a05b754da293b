"""Updates on the host: closed forms, arrays against plans alone, and what of a published sweep no constant saw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import calc
from calc.errors import Refused
from calc.quantities.parameters import parameters
from calc.spec.clusters import load_cluster
from calc.spec.run import Run
from calc.spec.stack import load_stack
from calc.time import predict, speed_of
from calc.time.step.offloaded import offloaded_seconds
from calc.time.step.waterfall import waterfall
from tests.time.columns import agreeing

ON = {"phase": "training", "cluster": "dgx-h100", "stack": "megatron-core", "zero": 1, "checkpointing": "none"}
DOCUMENT = Path(__file__).parents[2] / "docs" / "prediction.md"


@dataclass(frozen=True)
class Published:
    """One run of Qwen3-30B-A3B on 16 H100, tp 2, pp 2, ep 4 (Megatron-Bridge,
    skills/nemo-mbridge-perf-cpu-offloading/card.yaml). part: of the optimizer on the host. seconds: of a step."""

    part: float
    seconds: float
    overlap: bool = False


ALONE = 0.996
FITTED = (Published(1.0, 4.189), Published(1.0, 3.877, overlap=True))
"""All offloaded: what `reaches` and `link` of calc/data/stacks/megatron-core.toml were fitted on."""
LEFT_OUT = (Published(0.25, 1.871), Published(0.5, 2.484), Published(0.75, 3.187))


def updated() -> float:
    """Parameters that the fullest rank of that sweep updates: its share of experts over 2 ranks, of the rest over 4."""
    spec = calc.load_model("qwen3-30b-a3b")
    both = sum(parameters(spec).values())
    experts = 48 * 128 * 3 * 2048 * 768
    return experts / 2 / 4 / 2 + (both - experts) / 2 / 2 / 4


def added(row: Published) -> float:
    """Seconds that the host adds by our formula, with or without overlap."""
    run = Run(**(ON | {"dp": 4, "tp": 2, "pp": 2, "ep": 4, "offload": "optimizer", "offload_fraction": row.part}))
    run = run.changed(recipe="bf16-master")
    found = offloaded_seconds(run, calc.load_device("h100-sxm"), updated())
    return found.seconds if row.overlap else found.down + found.step + found.up


@pytest.mark.parametrize("row", FITTED)
def test_the_runs_that_constants_were_fitted_on(row: Published) -> None:
    assert added(row) == pytest.approx(row.seconds - ALONE, rel=0.01)


def test_the_document_has_the_error_of_the_others() -> None:
    text = DOCUMENT.read_text()
    for row in LEFT_OUT:
        measured, found = 1000 * (row.seconds - ALONE), 1000 * added(row)
        assert (
            f"| {row.part:.2f} | {measured:,.0f} | {found:,.0f} | {found / measured - 1:+.0%} |".replace("%", " %")
            in text
        )
        its = load_stack("megatron-core").offload
        assert its is not None
        assert its.low * found < measured < its.high * found


def test_a_step_ends_with_the_host() -> None:
    """28 bytes a parameter through an eighth of the machine's memory, where the GPU did as much before."""
    spec = calc.load_model("llama-3-8b")
    words = ON | {"gpus": 16, "seq": 4096, "micro_batches": 2}
    plain, host = (predict(spec, "h100-sxm", offload=name, **words) for name in ("none", "optimizer"))
    half = predict(spec, "h100-sxm", offload="optimizer", offload_fraction=0.5, **words)
    n = sum(parameters(spec).values()) / 16
    step = 28 * n / (0.24 * 614.4e9 / 8)
    bars = {bar.what: bar.seconds for bar in waterfall(host, speed_of("h100-sxm"))}
    assert bars["offload"] == pytest.approx(step, rel=1e-9)
    assert "optimizer" not in bars
    assert sum(bars.values()) == pytest.approx(host.seconds, rel=1e-9)
    of_gpu = {bar.what: bar.seconds for bar in waterfall(plain, speed_of("h100-sxm"))}["optimizer"]
    assert host.seconds - plain.seconds == pytest.approx(step - of_gpu, rel=1e-6)
    assert half.seconds - plain.seconds == pytest.approx(step / 2 - of_gpu / 2, rel=0.01)
    assert host.bound == "host"
    assert host.interval.high - host.seconds > 0.9 * step
    assert sum(host.by_component.values()) == pytest.approx(host.seconds, rel=1e-9)


def test_fewer_gpus_than_a_machine_has_share_its_memory() -> None:
    run = Run(**(ON | {"offload": "optimizer", "recipe": "bf16-master"}))
    device = calc.load_device("h100-sxm")
    two, eight = (offloaded_seconds(run.changed(dp=n), device, 1e9).step for n in (2, 8))
    assert eight == pytest.approx(4 * two)
    assert offloaded_seconds(run.changed(dp=64), device, 1e9).step == eight


@pytest.mark.parametrize("part", [0.3, 1.0])
@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-30b-a3b"])
def test_columns_are_the_plans_one_by_one(model: str, part: float) -> None:
    choices = {"tp": [1, 2, 4], "pp": [1, 2, 4], "dp": [1, 4, 8], "ep": [1, 2], "micro_batches": [4, 8]}
    words: dict[str, Any] = ON | {"seq": 1024, "offload": "optimizer", "offload_fraction": part}
    assert agreeing(model, choices, 30, 3, **words) > 10


@pytest.mark.parametrize(
    ("where", "words", "said"),
    [
        (
            "h100-sxm",
            {"cluster": None},
            "cluster: expected with --offload optimizer one whose machines' memory is known",
        ),
        ("b300", {"cluster": "dgx-b300"}, "cluster: .* found dgx-b300"),
        ("h100-sxm", {"stack": None}, "stack: expected with --offload optimizer one whose step"),
        ("rtx-3070", {}, "gpu: expected with --offload optimizer one whose link to the host is known, found rtx-3070"),
    ],
)
def test_what_nobody_measured_is_refused(where: str, words: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        predict(
            calc.load_model("gpt2"), where, offload="optimizer", **(ON | {"dp": 8, "recipe": "bf16-master"} | words)
        )


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100", "dgx-b200", "gb200-nvl72"])
def test_hosts_have_the_bandwidth_of_their_channels(name: str) -> None:
    """Channels x rate x 8 bytes of two processors; Grace as its maker prints it."""
    host = load_cluster(name).host
    assert host is not None
    channels = {"dgx-a100": 16 * 3.2e9 * 8, "dgx-h100": 16 * 4.8e9 * 8, "dgx-b200": 16 * 5.6e9 * 8}
    assert host.bandwidth == pytest.approx(channels.get(name, 2 * 512e9))
    assert host.source.url.startswith("https://")


@pytest.mark.parametrize("batch", [1, 4, 8])
def test_a_host_without_room_changes_nothing_of_what_is_recomputed(batch: int) -> None:
    """Recomputation makes room on the GPU alone."""
    large = load_cluster("dgx-h100")
    assert large.host is not None
    small = large.model_copy(update={"host": large.host.model_copy(update={"memory": 2**36})})
    words: dict[str, Any] = {"phase": "training", "stack": "megatron-core", "dp": 8, "zero": 1, "offload": "optimizer"}
    words |= {"seq": 4096, "batch": batch}
    spec = calc.load_model("llama-3-8b")
    fits, overflows = (predict(spec, "h100-sxm", cluster=each, **words) for each in (large, small))
    assert (fits.fits, overflows.fits) == (True, False)
    assert overflows.memory.overflows_host
    assert fits.run.checkpoint_every == overflows.run.checkpoint_every
    assert fits.run.checkpointing == overflows.run.checkpointing == ("none" if batch == 1 else "full")
