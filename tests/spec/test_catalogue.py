"""The catalogue of devices: every file, the figures against one another and against measurements, and names."""

from __future__ import annotations

import csv
import re
from datetime import date

import pytest

import calc
from calc.reading.files import parse_toml
from calc.spec.catalogue import HARDWARE, devices_of
from calc.spec.hardware import Device
from tests import reference

DEVICES = {name: calc.load_device(name) for name in calc.device_names()}
EVERY = pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
GIB = 2**30


def test_the_promised_devices_are_there() -> None:
    promised = """p100-sxm2 p100-pcie v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb a100-pcie-40gb
    a100-pcie-80gb a100-sxm-40gb a100-sxm-80gb h100-pcie h100-sxm h100-nvl h200 h800 h20 b200 gb200 b300 gb300 l4 l40s
    rtx-4090 rtx-5090 rtx-pro-6000 mi300x mi325x mi350x mi355x tpu-v3 tpu-v4 tpu-v5e tpu-v5p tpu-v6e
    tpu-v7 a10 a40 rtx-a6000 l40 rtx-6000-ada rtx-5000-ada rtx-4000-ada rtx-3090 rtx-3070 gaudi-2 gaudi-3 m2-ultra
    m3-max m4-max strix-halo dgx-spark"""
    assert set(promised.split()) <= set(DEVICES)


def test_a_device_stands_in_the_file_of_its_product() -> None:
    for path in HARDWARE.glob("*.toml"):
        for device in devices_of(parse_toml(path.read_text(), path.stem), path.stem):
            assert device.name == path.stem or device.name.startswith(f"{path.stem}-")


@EVERY
def test_every_figure_has_a_source_and_a_date(device: Device) -> None:
    facts = dict(device.facts())
    assert {"memory", "bandwidth"} < facts.keys()
    assert any(name.startswith("peaks.") for name in facts)
    for fact in facts.values():
        assert date(2026, 10, 1) <= fact.source.read <= date.today()
        assert len(fact.source.document) > 10
        assert fact.source.url.startswith("https://")


@EVERY
def test_units_are_in_the_range_of_what_exists(device: Device) -> None:
    assert 8 * GIB <= device.memory.value <= 512 * GIB
    assert 0.9 * device.memory.value <= device.usable <= 1.01 * device.memory.value
    assert 0.2e12 <= device.bandwidth.value <= 10e12
    assert 60 <= (device.power.value if device.power else 100) <= 1500
    assert device.link is None or 100e9 <= device.link.value <= 2e12
    assert device.host is None or 30e9 <= device.host.value <= 500e9
    assert device.link_one_way is None or 2 * device.link_one_way == dict(device.facts())["link"].value
    assert (
        device.sram is None or 64 * 2**10 <= device.sram.value <= (256 if device.vendor != "Google" else 2**14) * 2**10
    )
    assert device.l2 is None or 4 * 2**20 <= device.l2.value <= 128 * 2**20


@EVERY
def test_intensity_of_half_precision(device: Device) -> None:
    """Operations a byte at which products stop being bound by memory: from 29 (P100, no matrix units) to 560 (v6e)."""
    half = device.peaks.bf16 or device.peaks.fp16
    assert half is not None
    assert 25 <= half.value / device.bandwidth.value <= 600


@EVERY
def test_ratios_between_dtypes_betray_a_sparse_figure(device: Device) -> None:
    """A rate of half the width is as fast, or twice or four times as fast; a sparse one in between would be off."""
    peaks = {dtype: rate.value for dtype, rate in device.known_peaks.items()}
    for wide, narrow, ratios in (
        ("bf16", "fp16", {1}),
        ("tf32", "bf16", {2}),
        ("bf16", "fp8", {1, 2}),
        ("bf16", "int8", {1, 2, 4}),
        ("fp8", "fp4", {2, 3, 4}),  # three times since Blackwell Ultra
        ("fp64", "fp32", {1, 2, 32, 64}),  # a 32nd on Turing
    ):
        if wide in peaks and narrow in peaks:
            ratio = peaks[narrow] / peaks[wide]
            assert any(ratio == pytest.approx(whole, rel=0.03) for whole in ratios), (wide, narrow, ratio)


@pytest.mark.parametrize(
    ("name", "cores", "per_clock", "clock", "dtype"),
    [
        ("v100-sxm2-32gb", 80, 8 * 64, 1.53e9, "fp16"),
        ("a100-sxm-80gb", 108, 4 * 256, 1.41e9, "bf16"),
        ("h100-sxm", 132, 4 * 512, 1.83e9, "bf16"),
        ("rtx-a4000", 48, 4 * 128, 1.56e9, "fp16"),
        ("rtx-4090", 128, 4 * 64, 2.52e9, "bf16"),
        ("rtx-5090", 170, 4 * 64, 2.407e9, "bf16"),
        ("mi300x", 304, 4 * 256, 2.1e9, "bf16"),
        ("mi355x", 256, 4 * 512, 2.4e9, "bf16"),
        ("mi350x", 256, 4 * 512, 2.2e9, "bf16"),
        ("mi325x", 304, 4 * 256, 2.1e9, "bf16"),
        ("h800", 132, 4 * 512, 1.83e9, "bf16"),
        ("rtx-pro-6000", 188, 4 * 128, 2.617e9, "bf16"),
    ],
)
def test_peaks_are_units_times_clock(name: str, cores: int, per_clock: int, clock: float, dtype: str) -> None:
    """Multiply-adds a clock of a core's matrix units and the boost clock, from the architectures' white papers."""
    device = DEVICES[name]
    assert device.cores is not None
    assert device.cores.value == cores
    assert device.peak(dtype) == pytest.approx(2 * cores * per_clock * clock, rel=0.003)


def test_measurements_were_scaled_by_the_same_peaks() -> None:
    """Ratios of what good kernels reach were taken to these peaks and bandwidths, to three digits."""
    with (reference.folder() / "measured/kernels/attainable.csv").open(newline="") as file:
        rows = [row for row in csv.reader(file) if row[0] in ("gemm", "copy") and row[1] in ("h100", "h200")]
    checked = 0
    for _, gpu, dtype, _, value, _, ratio, limit, *_ in rows:
        device = DEVICES["h100-sxm" if gpu == "h100" else gpu]
        reached = float(value) * 1e12
        if limit == "datasheet dense peak":
            assert reached / device.peak(dtype) == pytest.approx(float(ratio), rel=0.001, abs=1e-4)
            checked += 1
        elif limit == "datasheet HBM bandwidth":
            assert reached / device.bandwidth.value == pytest.approx(float(ratio), rel=0.001, abs=1e-4)
            checked += 1
    assert checked >= 20


def test_measured_buckets_name_the_same_peaks() -> None:
    with (reference.folder() / "measured/inference/aic_derived_efficiency_by_bucket.csv").open(newline="") as file:
        stated = {(row["gpu"], row["source"]) for row in csv.DictReader(file)}
    names = {
        "a100_sxm": "a100-sxm-80gb",
        "h100_sxm": "h100-sxm",
        "h200_sxm": "h200",
        "b200_sxm": "b200",
        "l40s": "l40s",
    }
    assert {gpu for gpu, _ in stated} == set(names)
    for gpu, source in stated:
        match = re.search(r"peaks: (\d+) TFLOPS / ([\d.]+) TB/s", source)
        assert match is not None
        device = DEVICES[names[gpu]]
        assert device.peak("bf16") == pytest.approx(float(match[1]) * 1e12, rel=0.001)
        assert device.bandwidth.value == pytest.approx(float(match[2]) * 1e12, rel=0.001)


def test_names_and_aliases_are_of_one_device() -> None:
    names = [name for device in DEVICES.values() for name in (device.name, *device.aliases)]
    plain = ["-".join(re.findall(r"[a-z0-9]+", name.lower())) for name in names]
    assert len(set(plain)) == len(plain)
    for name in names:
        assert name in (calc.load_device(name).name, *calc.load_device(name).aliases)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("H100 SXM", "h100-sxm"), ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("H200", "h200"), ("l40S", "l40s"),
        ("A100-80GB-SXM", "a100-sxm-80gb"), ("v100_sxm2_16gb", "v100-sxm2-16gb"), ("4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"), ("TPU v5 lite", "tpu-v5e"), ("MI300X", "mi300x"),
    ],
)  # fmt: skip
def test_names_as_people_and_torch_write_them(written: str, name: str) -> None:
    assert calc.load_device(written).name == name


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("h100", "expected one of h100-nvl, h100-pcie, h100-sxm, which differ, found h100"),
        ("A100 80GB", "expected one of a100-pcie-80gb, a100-sxm-80gb, which differ, found A100 80GB"),
        ("tpu", "tpu-v3, tpu-v4, tpu-v5e, tpu-v5p, tpu-v6e, tpu-v7, which differ"),
        ("b2000", "did you mean b200"),
        ("nvl", "a device of the catalogue"),
        ("voodoo 2", "`gpus` lists them"),
        ("", "a device of the catalogue"),
        ("a\nb", "a\\nb"),
        ("x" * 10_000, "a device of the catalogue"),
    ],
)
def test_names_that_are_refused(written: str, message: str) -> None:
    with pytest.raises(calc.Refused) as refusal:
        calc.load_device(written)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_a_peak_that_is_not_published_is_refused() -> None:
    assert DEVICES["h100-sxm"].peak("bf16") == 989_400_000_000_000
    with pytest.raises(
        calc.Refused, match="one that v100-pcie-16gb has a published peak for: fp64, fp32, fp16, found bf16"
    ):
        DEVICES["v100-pcie-16gb"].peak("bf16")


def test_unconfirmed_figures_are_named() -> None:
    assert DEVICES["h100-sxm"].unconfirmed == ()
    assert DEVICES["rtx-4090"].unconfirmed == ("sram",)


FILE = """
[sources.page]
document = "A data sheet"
where = "table 1"
url = "https://example.org/sheet"
read = 2026-11-21
confirmed = true

[common]
vendor = "Example"
architecture = "Made up"
bandwidth = { value = "1TB", source = "page" }
peaks = { bf16 = { value = "100TFLOP", source = "page" }, fp8 = { value = "200TFLOP", source = "page" } }

[devices.one]
title = "One"
memory = { value = "80GiB", source = "page" }
peaks = { fp8 = { value = "400TFLOP", source = "page", note = "its own" } }
"""


def test_what_is_common_is_overridden_peak_by_peak() -> None:
    (device,) = devices_of(parse_toml(FILE, "file"), "file")
    assert (device.name, device.usable) == ("one", 80 * GIB)
    assert (device.peak("bf16"), device.peak("fp8")) == (100 * 10**12, 400 * 10**12)
    assert device.peaks.fp8 is not None
    assert device.peaks.fp8.note == "its own"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"80GiB", source = "page"', '"80GiB", source = "book"', "file: one: memory: source: expected one of page"),
        ('"80GiB", source = "page"', '"80GiB"', "memory.source: expected a value, found nothing"),
        ('"80GiB"', "80", "text with a unit of bytes"),
        ('"80GiB"', '"80 TFLOP"', "expected bytes"),
        ('"80GiB"', '"0GiB"', "greater than 0"),
        ('"80GiB"', '"0.3B"', "a valid integer"),
        ('"1TB"', '"fast"', "a number of bytes"),
        ('"100TFLOP"', '"100TB"', "expected FLOP"),
        ("bf16 =", "bf17 =", "peaks.bf17: expected no such field"),
        ("https://example.org/sheet", "a book", "url"),
        ("read = 2026-11-21", "", "read: expected a value, found nothing"),
        ("confirmed = true", "confirmed = 1", "confirmed: expected a valid boolean"),
        ('title = "One"', 'titel = "One"', "titel: expected no such field"),
        ("[common]", "[comon]", "comon: expected one of sources, common, devices"),
        ("[devices.one]", "[other.one]", "other: expected one of sources, common, devices"),
        ("[devices.one]", "[devices", "expected TOML"),
    ],
)
def test_files_that_are_refused(old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(calc.Refused) as refusal:
        devices_of(parse_toml(FILE.replace(old, new), "file"), "file")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
