"""Errors that shipped profiles and docs/prediction-measured.md claim are those of rows that no constant saw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calc.spec.catalogue import load_device
from calc.time.device.profile import PROFILES, STACKS
from harness.importing.choosing import CALIBRATING, tenth
from harness.importing.fitting import Wanted, split
from tests.time import profile_tables as tables


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("system", tables.SYSTEMS)
def test_a_profile_is_as_wrong_as_it_says(system: str, stack: str) -> None:
    """Every model, on the shapes of the last two tenths, which its fitting never saw."""
    profile, seen = tables.profile(system, stack), 0
    for field, rows in tables.every_rows(system, stack, load_device(system)):
        model, fit = getattr(profile, field)[rows.name], profile.fits[f"{field}.{rows.name}"]
        fitted, calibrating, tested = split(rows, Wanted(stack))
        assert len(fitted) == fit.points
        held = np.union1d(calibrating, tested)
        if len(np.intersect1d(calibrating, tested)) == 0:
            assert (tenth(rows.shape)[held] >= CALIBRATING).all()
        assert not set(fitted.tolist()) & set(held.tolist())
        errors = np.abs(
            model.predicted({name: column[held] for name, column in rows.shape.items()}) / rows.seconds[held] - 1
        )
        assert errors.mean() == pytest.approx(fit.mape, rel=1e-6), rows.name
        seen += 1
    assert seen == sum(not name.startswith("collectives") for name in profile.fits)


@pytest.mark.parametrize("section", ["kinds", "formats", "elsewhere"])
def test_the_document_says_what_the_profiles_say(section: str) -> None:
    assert tables.documented(section) == tables.SECTIONS[section]()


@pytest.mark.slow
def test_the_document_says_how_wrong_relatives_are() -> None:
    for section in ("relatives", "related products"):
        assert tables.documented(section) == tables.SECTIONS[section]()


def test_products_in_16_bits_are_carried_over_best() -> None:
    """Of devices left out with their twins: kernels in fewer bits are other programs on other architectures."""
    found = dict[str, float]()
    for row in tables.documented("related products").splitlines()[2:]:
        cells = row.strip("|").split("|")
        found[cells[0].strip()] = float(cells[-1])
    assert set(found) == {"bf16", "fp8", "fp8 block", "nvfp4"}
    assert 1.3 * found["bf16"] < min(found[name] for name in found if name != "bf16")


def test_intervals_of_relatives_hold_what_they_say() -> None:
    """85 to 95 of 100 times of a device lie in the interval of models that were moved there."""
    shares = [row.split("|")[-2] for row in tables.documented("relatives").splitlines()[2:]]
    assert len(shares) == 2 * len(tables.RELATED)
    assert all(85 <= float(share.removesuffix(" % ")) <= 95 for share in shares)


def test_intervals_hold_what_they_say() -> None:
    """85 to 95 of 100 held-out times of every kind lie in the 90 % interval."""
    kinds: dict[str, list[Any]] = {}
    for (kind, _, _), row in tables.cells().items():
        kinds.setdefault(kind, []).extend(row.values())
    for kind, own in kinds.items():
        inside = sum(cell.inside * cell.rows for cell in own) / sum(cell.rows for cell in own)
        assert 0.85 <= inside <= 0.95, kind


def test_profiles_are_small() -> None:
    sizes = [path.stat().st_size for path in PROFILES.glob("*.json")]
    assert len(sizes) == len(tables.SYSTEMS) * len(STACKS)
    assert max(sizes) < 1.5e6
    assert sum(sizes) < 8e6
