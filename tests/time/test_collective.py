"""Time of collectives: curves through measured sizes, the datasheet's word, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.errors import Refused
from calc.spec.catalogue import load_device
from calc.time.models.boosting import spread
from calc.time.models.collective import COLLECTIVES, CollectiveModel, passes
from harness.importing.collectives import import_collectives
from harness.importing.fitting import Wanted
from tests.reference import folder

LINK = 450e9
DATASHEET = {op: CollectiveModel.prior(op, LINK) for op in COLLECTIVES}


def ring(op: str = "all_gather", noise: float = 0.0, seed: int = 0) -> tuple[CollectiveModel, np.ndarray]:
    """A model of times that follow latency plus bytes over 300 GB/s, and those times."""
    gpus, size = (column.ravel() for column in np.meshgrid([2.0, 4.0, 8.0], 2.0 ** np.arange(9, 30)))
    seconds = 4e-6 * np.log2(2 * gpus) + size * passes(op, gpus) / 300e9
    seconds = seconds * np.exp(noise * np.random.default_rng(seed).normal(size=len(size)))
    return CollectiveModel.fit(op, gpus, size, seconds, "ring"), seconds


MEASURED, _ = ring()


def bus_bandwidth(model: CollectiveModel, size: float, gpus: int) -> float:
    """Bytes/s that each link sustains, by the convention of nccl-tests."""
    return size * float(passes(model.op, gpus)) / float(model.seconds(size, gpus))


def test_curves_follow_what_was_measured():
    for gpus in (2, 4, 8):
        for size in (3e3, 5e5, 7e7):
            exact = 4e-6 * np.log2(2 * gpus) + size * (gpus - 1) / gpus / 300e9
            assert MEASURED.seconds(size, gpus) == pytest.approx(exact, rel=0.06)
    assert bus_bandwidth(MEASURED, 2e9, 8) == pytest.approx(300e9, rel=0.05)
    assert MEASURED.spread is not None
    assert MEASURED.spread.mape < 0.06


def test_a_late_gpu_in_one_measurement_is_passed_over():
    gpus, size = np.full(21, 8.0), 2.0 ** np.arange(9, 30)
    seconds = 1e-5 + size / 300e9
    late = seconds.copy()
    late[[2, 7]] *= 3
    model = CollectiveModel.fit("all_gather", gpus, size, late)
    kept = np.delete(np.arange(21), [2, 7])
    assert np.abs(model.seconds(size[kept], 8) / seconds[kept] - 1).mean() < 0.05


@given(st.floats(1, 1e11), st.floats(1, 1e11), st.integers(2, 8))
def test_larger_messages_are_never_faster(one: float, two: float, gpus: int):
    small, large = sorted((one, two))
    for model in (MEASURED, DATASHEET["all_reduce"]):
        times = model.seconds(np.array([small, large]), gpus)
        assert 1e-6 < times[0] <= times[1] * (1 + 1e-12)
        assert times[1] < 10


def test_between_numbers_of_gpus():
    times = [MEASURED.seconds(2**20, gpus) for gpus in (2, 3, 4, 6, 8)]
    assert times == sorted(times)


@pytest.mark.parametrize("gpus", [16, 72])
def test_between_more_gpus_than_were_measured(gpus: int):
    """By the steps of a tree and by what each link passes on; the law that the measurements follow."""
    for size in (2e6, 5e7, 2e9):
        exact = 4e-6 * np.log2(2 * gpus) + size * (gpus - 1) / gpus / 300e9
        assert MEASURED.seconds(size, gpus) == pytest.approx(exact, rel=0.15)
    assert MEASURED.seconds(2**20, gpus) > MEASURED.seconds(2**20, 8)


def test_what_was_not_measured_is_refused():
    with pytest.raises(Refused, match="GPUs of all_gather: expected 4 or more, since fewer were not measured, found 2"):
        MEASURED.model_copy(update={"curves": MEASURED.curves[1:]}).seconds(2**20, 2)
    with pytest.raises(Refused, match="one of all_reduce"):
        CollectiveModel.prior("scan", LINK)


def test_one_gpu_and_no_bytes_take_no_time():
    assert MEASURED.seconds(2**20, 1) == 0
    assert DATASHEET["all_gather"].seconds(0, 8) == 0


def test_the_datasheet_in_the_convention_of_nccl_tests():
    size = 2**32
    assert DATASHEET["all_reduce"].seconds(size, 8) == pytest.approx(
        2 * DATASHEET["all_gather"].seconds(size, 8), rel=0.01
    )
    assert bus_bandwidth(DATASHEET["all_gather"], size, 64) == pytest.approx(0.75 * LINK, rel=0.01)
    assert DATASHEET["send"].seconds(size, 2) == pytest.approx(size / (0.75 * LINK), rel=0.01)


def test_moved_to_faster_links():
    faster = MEASURED.moved(LINK, 2 * LINK)
    assert faster.seconds(2**29, 8) == pytest.approx(MEASURED.seconds(2**29, 8) / 2, rel=0.03)
    assert faster.seconds(512, 8) == pytest.approx(MEASURED.seconds(512, 8), rel=0.03)


def test_json_round_trip():
    assert CollectiveModel.model_validate(json.loads(MEASURED.model_dump_json()), strict=False) == MEASURED
    assert ring(noise=0.05)[0] == ring(noise=0.05)[0]


BOUNDS = {"all_gather": 0.08, "all_reduce": 0.08, "reduce_scatter": 0.08, "all_to_all": 0.13}


def test_nccl_on_an_h100():
    path = folder() / "measured" / "kernels" / "aic_h100_sxm_nccl_perf.csv.gz"
    found = {one.dtype: one for one in import_collectives(path, load_device("h100-sxm"), Wanted(), print)}
    assert sorted(found) == sorted(BOUNDS)
    for op, bound in BOUNDS.items():
        assert found[op].fit.mape < bound, op
    # Half of the link's 900 GB/s goes one way; switches that add up reach all of it in this convention.
    for op, rate in (("all_reduce", 445e9), ("all_gather", 337e9)):
        model: Any = found[op].model
        assert bus_bandwidth(model, 2**29, 8) == pytest.approx(rate, rel=0.03)


def test_the_engines_own_all_reduce_on_an_h100():
    path = folder() / "measured" / "kernels" / "aic_h100_sxm_custom_allreduce_perf.csv.gz"
    device = load_device("h100-sxm")
    with pytest.raises(Refused, match="--framework: expected one of SGLang, TRTLLM, vLLM"):
        import_collectives(path, device, Wanted(), print)
    [found] = import_collectives(path, device, Wanted("vllm", "0.24.0", "vLLM_custom_graph"), print)
    assert found.fit.mape < 0.08
    assert found.impossible == 0
    model: Any = found.model
    assert model.seconds(1024, 2) == pytest.approx(4.2e-6, rel=0.1)


def test_hostile_tables_are_refused(tmp_path: Path):
    path = tmp_path / "table.csv"
    head = "nccl_dtype,num_gpus,message_size,kernel_source,op_name,latency\n"
    rows = [f"half,2,{2**n},NCCL,all_gather,{0.005 + 2**n / 1e8}" for n in range(8, 28)]
    for change, words in (
        (("all_gather", "scan"), "op_name"),
        (("half,2", "half,nine"), "num_gpus"),
        (("0.0", "-0.0"), "latency"),
        (("half", "int4"), "nccl_dtype"),
    ):
        path.write_text(head + "\n".join(rows).replace(*change))
        with pytest.raises(Refused, match=words):
            import_collectives(path, load_device("h100-sxm"), Wanted(), print)
    path.write_text(head + "\n".join(rows[:5]))
    with pytest.raises(Refused, match="at least 10 rows"):
        import_collectives(path, load_device("h100-sxm"), Wanted(), print)


def test_sizes_that_one_number_of_gpus_lacks_are_told_by_the_links_of_the_others() -> None:
    """8 GPUs were measured up to 64 KiB, where the start is what takes time; 2 and 4 up to 256 MiB."""
    sizes = 2.0 ** np.arange(10, 29, 2)
    gpus, size = (np.concatenate(each) for each in ([np.full(len(sizes), float(n)) for n in (2, 4, 8)], [sizes] * 3))
    seconds = 1e-5 + size * 2 * (gpus - 1) / gpus / 100e9
    seen = (gpus < 8) | (size <= 2**16)
    model = CollectiveModel.fit("all_reduce", gpus[seen], size[seen], seconds[seen])
    assert model.seconds(size[~seen], gpus[~seen]) == pytest.approx(seconds[~seen], rel=0.15)


def test_intervals_of_few_points_are_wider() -> None:
    """Of 19 values the extremes hold a twentieth one nine times of ten; of many their own quantiles do."""
    values = np.linspace(-0.9, 0.9, 19)
    assert spread(values, few=True).interval(0.9) == pytest.approx((np.exp(-0.9), np.exp(0.9)))
    assert spread(values).interval(0.9) == pytest.approx((np.exp(-0.81), np.exp(0.81)))
    many = np.linspace(-1, 1, 10001)
    assert spread(many, few=True).interval(0.9) == pytest.approx(spread(many).interval(0.9), rel=1e-3)
