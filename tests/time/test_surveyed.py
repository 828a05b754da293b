"""The tables of docs/prediction-measured.md of a GPU that this project surveyed, and what they are read as."""

from __future__ import annotations

from statistics import median

import pytest

from tests.time.profile_tables import documented
from tests.time.surveyed import KINDS, SECTIONS, of_kind, pairs, peaks


@pytest.mark.parametrize("section", SECTIONS)
def test_the_document_has_what_is_computed(section: str) -> None:
    assert documented(section) == SECTIONS[section]()


def test_every_row_that_is_predicted_is_in_one_line() -> None:
    """But for latents multiplied out, which no server does."""
    left = [run for run, *_ in pairs() if sum(kind.of(run) for kind in KINDS) != 1]
    assert {run.params.get("backend") for run in left} == {"mla_naive"}


def test_kernels_of_kinds_that_no_rule_saw() -> None:
    """Products, experts and tokens' attention of another machine, by constants from engines' kernels elsewhere."""
    found = {kind.name: of_kind(kind) for kind in KINDS if not kind.seen}
    for name in ("products, bf16", "products, fp8", "products of experts, bf16"):
        errors = [abs(forecast.seconds / measured.seconds - 1) for forecast, measured in found[name]]
        assert median(errors) < 0.1, name


def test_memory_is_counted_within_a_hundredth_where_nothing_is_compiled() -> None:
    found = {run.case: counted / measured - 1 for run, counted, measured in peaks()}
    plain = [off for case, off in found.items() if "compiled" not in case]
    assert len(plain) == 6
    assert all(abs(off) < 0.01 for off in plain)
    assert all(abs(off) < 0.06 for off in found.values())
