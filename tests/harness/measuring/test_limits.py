"""What no machine can exceed, what rates are shares of, and what makes a measurement throttled."""

from __future__ import annotations

import time

import pytest

from calc.spec.catalogue import load_device
from harness.environment import slug_of, usable_cores
from harness.measuring.limits import catalogued, cpu_bound, impossible, number_format, peak_flops, rates
from harness.measuring.sampling import FAULTS, REASONS, Gpu, Sampler, facts, reasons, sm_clock
from harness.record import Sample
from tests.harness.made import CPU, H100, measurement


def test_the_gpu_of_an_environment_is_found_in_the_catalogue() -> None:
    found = catalogued(H100)
    assert found is not None
    assert found.name == "h100-sxm"
    assert catalogued(H100.model_copy(update={"name": "NVIDIA Whatever 9000"})) is None
    assert catalogued(CPU) is None


@pytest.mark.parametrize(
    ("name", "dtype"), [("bf16", "bf16"), ("bf16-mixed", "bf16"), ("fp32", "fp32"), (None, "fp32")]
)
def test_the_format_of_a_case(name: str | None, dtype: str) -> None:
    assert number_format({"dtype": name}) == dtype


def test_a_rate_above_the_peak_fails() -> None:
    peak = load_device("h100-sxm").peak("bf16")
    params = {"dtype": "bf16"}
    assert impossible({"flops": 0.95 * peak}, params, measurement(), H100) is None
    # Above the datasheet, but within what the fastest clock of the board allows.
    assert impossible({"flops": 1.05 * peak}, params, measurement(), H100) is None
    broken = impossible({"flops": 1.2 * peak}, params, measurement(), H100)
    assert broken == "impossible: 1.19 PFLOP/s of bf16, where NVIDIA H100 80GB HBM3 has at most 1.09 PFLOP/s"
    # PyTorch may compute fp32 in tf32 where it was told to.
    assert impossible({"flops": 0.9 * load_device("h100-sxm").peak("tf32")}, {}, measurement(), H100) is None
    assert impossible({"flops": 0.2}, params, measurement(0.0), H100) == "impossible: it took no time"


def test_a_bandwidth_above_the_memorys_fails_unless_a_cache_may_have_helped() -> None:
    bandwidth = load_device("h100-sxm").bandwidth.value
    small, large = 40e6, 4e9
    for moved, cache, fails in [(small, "hot", False), (small, "cold", True), (large, "hot", True)]:
        measured = measurement(moved / (1.2 * bandwidth), cache=cache)
        assert bool(impossible({"bytes": moved}, {}, measured, H100)) == fails
    assert impossible({"bytes": large}, {}, measurement(large / bandwidth), H100) is None


def test_a_cpu_is_bound_by_its_cores_and_its_instructions() -> None:
    bound = cpu_bound(CPU, "fp32")
    if bound is None:
        assert impossible({"flops": 1e30}, {}, measurement(), CPU) is None
        return
    assert bound >= 2 * 16 * 1e9
    assert cpu_bound(CPU.model_copy(update={"cores": 4}), "fp32") == 2 * bound
    bf16 = cpu_bound(CPU, "bf16")
    assert bf16 is not None
    assert bf16 >= bound
    assert impossible({"flops": bound / 2}, {}, measurement(), CPU) is None
    assert "impossible" in str(impossible({"flops": bound * 2}, {}, measurement(), CPU))


def test_rates_are_per_second_and_mfu_a_share_of_the_dense_peak() -> None:
    counts = {"flops": 4e12, "bytes": 2e9, "tokens": 100.0, "model_flops": 3e12}
    found = rates(counts, {"dtype": "bf16"}, measurement(0.01), H100)
    assert found == pytest.approx(
        {
            "flops_per_second": 4e14,
            "bytes_per_second": 2e11,
            "tokens_per_second": 1e4,
            "mfu": 3e14 / load_device("h100-sxm").peak("bf16"),
        }
    )
    assert "mfu" not in rates(counts, {"dtype": "bf16"}, measurement(0.01), CPU)
    assert rates({"tokens": 1.0}, {}, measurement(0.5), H100) == {"tokens_per_second": 2.0}
    assert rates(counts, {"dtype": "bf16"}, measurement(0.0), H100) == {}
    assert peak_flops(H100, "fp4") is None


def test_reasons_for_holding_back() -> None:
    assert reasons(0) == reasons(0x1) == ()
    assert reasons(0x4 | 0x20) == ("software power cap", "software thermal slowdown")
    assert set(FAULTS) < set(REASONS.values())
    assert not {"idle", "software power cap", "applications clocks"} & set(FAULTS)


def test_without_a_gpu_nothing_is_sampled() -> None:
    with Sampler(None) as sampler:
        pass
    assert sampler.result() is None
    assert Sample().throttle == ()


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3"),
        ("cpu Intel(R) Xeon(R) CPU @ 2.20GHz 2 cores", "cpu-intel-xeon-cpu-2-cores"),
        ("../../etc/passwd", "etc-passwd"),
        ("", "unknown"),
        ("X" * 200, "x" * 80),
    ],
)
def test_a_device_as_a_folder(name: str, slug: str) -> None:
    assert slug_of(name) == slug


def test_cores_are_those_that_may_be_used() -> None:
    assert 1 <= usable_cores() <= 4096


class Nvml:
    """What NVML answers of a board that is hot, in the units of its documentation: MHz, mW, degrees; power is not told
    to this user."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self) -> None:
        self.masks = [0x4, 0x4 | 0x20, 0x1]

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.1"

    def nvmlDeviceGetMaxClockInfo(self, handle: object, clock: int) -> int:  # noqa: N802
        return {1: 1980, 2: 2619}[clock]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: object) -> int:  # noqa: N802
        return 700_000

    def nvmlDeviceGetClockInfo(self, handle: object, clock: int) -> int:  # noqa: N802
        return {1: 1755, 2: 2619}[clock]

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:  # noqa: N802
        raise self.NVMLError

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int:  # noqa: N802
        return 84

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: object) -> int:  # noqa: N802
        return self.masks.pop(0) if self.masks else 0x1


def test_what_a_gpu_says_of_itself_is_kept() -> None:
    gpu = Gpu(Nvml(), "handle")
    assert facts(gpu) == {"driver": "580.1", "max_sm_clock": 1980, "max_memory_clock": 2619, "power_limit": 700.0}
    assert sm_clock(gpu) == 1755
    with Sampler(gpu, period=0.001) as sampler:
        while gpu.nvml.masks:
            time.sleep(0.001)
    found = sampler.result()
    assert found is not None
    assert (found.sm_clock, found.memory_clock, found.power, found.temperature) == (1755, 2619, None, 84)
    assert found.throttle == ("software power cap", "software thermal slowdown")


def test_what_is_over_before_the_first_look_is_looked_at_afterwards() -> None:
    with Sampler(Gpu(Nvml(), "handle"), period=60) as sampler:
        pass
    assert sampler.result() == Sample(
        sm_clock=1755, memory_clock=2619, temperature=84, throttle=("software power cap",)
    )
