"""A machine by its measured profile: what the device does is the profile's, what the host does the engine's."""

from __future__ import annotations

import pytest

from calc.serve.constants import constants_of, fitted_engines
from calc.serve.formats import served_format
from calc.serve.machine import machine_rates
from calc.serve.rates import rates_of
from calc.spec.catalogue import load_device
from calc.spec.run.engines import engine_named
from calc.time.device.profile import read_profile
from tests.reference import ROOT

PROFILE = ROOT / "results" / "profiles" / "cpu-intel-xeon-processor-2-cores.json"


@pytest.mark.parametrize("engine", fitted_engines())
def test_a_host_takes_as_long_beside_a_measured_machine(engine: str) -> None:
    """The same step and the same sequence as beside a device of the catalogue, and a sequence costs something."""
    dtype = "fp16" if engine.startswith("llama.cpp") else "bf16"
    measured = machine_rates(read_profile(PROFILE), "fp32", engine)
    listed = rates_of(load_device("h100-sxm"), served_format(dtype), engine, 1, False)
    host = {name: getattr(measured, name) for name in ("step", "sequence", "serial")}
    assert host == {name: getattr(listed, name) for name in host}
    each = constants_of(engine)["sequence"] * constants_of(engine).get(f"sequence.{engine}", 1.0)
    assert host["serial" if engine_named(engine).serial else "sequence"] == pytest.approx(each)
