"""What docs/scaling-laws-fits.md prints of intervals and of held-out errors is what comes out.

`python -m tests.fitting.test_coverage` prints both tables anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import calc
from calc.errors import Refused
from calc.fitting.average import behind_first
from calc.fitting.forms import FORMS
from tests import reference
from tests.fitting.coverage import DESIGNS, NOISES, TABLES, coverage

DOCUMENT = reference.ROOT / "docs" / "scaling-laws-fits.md"
REFITS = 300
RUNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Besiroglu et al., points of Chinchilla's figure 4": ("epoch_chinchilla.csv", ("notes!~outlier",)),
    "Gadre et al., C4": ("gadre2024_overtraining.csv", ("extra~eval=c4_val", "dataset=c4_original")),
    "Gadre et al., RedPajama": ("gadre2024_overtraining.csv", ("extra~eval=c4_val", "dataset=rpj")),
    "Gadre et al., RefinedWeb": ("gadre2024_overtraining.csv", ("extra~eval=c4_val", "dataset=rw_original")),
    "Gemstones (2025), constant learning rate": ("gemstones2025_hot.csv", ()),
    "Muennighoff et al., single epoch": ("muennighoff2023_datablations.csv", ("extra~epochs=1.000",)),
    "OLMo ladder (2024)": ("olmo_ladder2024.csv", ()),
    "Porian et al., tuned, RefinedWeb": (
        "porian2024_isoflop.csv",
        ("extra~hparams=tuned", "extra~count=standard", "extra~split=val", "dataset=RefinedWeb"),
    ),
    "Clark et al., S-Base": ("clark2022_routed_final.csv", ("extra~router=S-Base",)),
}
LONG = {name for name in RUNS if name.startswith(("Besiroglu", "Gemstones", "Porian"))}
"""Tables whose fits take several seconds."""
SURFACES = {"Gadre et al., C4", "Muennighoff et al., single epoch", "OLMo ladder (2024)", "Clark et al., S-Base"}
"""Tables to which Farseer's surface is fitted anew; to the longer ones, and to Gadre's others, that takes minutes."""
ELSEWHERE = 0.3
"""How far Farseer's errors of one machine are from those of another: one of its starts alone comes to the constants,
and which valley it ends in is decided by rounding."""
ORDER = ("chinchilla", "equal-exponents", "kaplan", "free-k")


def held_out_row(name: str, folder: Path, *, surface: bool = True) -> str:
    """The runs' row of the document: errors of every form, the best one bold, a sign where none is told from it.
    surface: whether Farseer's is fitted."""
    file, where = RUNS[name]
    fits = calc.tournament(folder / "scaling" / "runs" / file, where=where, refits=0)
    errors = {fit.law: "–" for fit in fits}
    for fit, behind in zip(fits, behind_first(fits), strict=True):
        if fit.held_out is not None:
            text = f"{fit.held_out.rms:.2%}"
            errors[fit.law] = (
                f"**{text}**" if fit is fits[0] else text if behind and behind.distinguished else f"{text} ="
            )
    held = fits[0].held_out
    span = "–" if held is None else f"{held.runs} from {held.compute:.1e}".replace("e+", "e")
    errors["farseer"] = _farseer(folder / "scaling" / "runs" / file, where) if surface else "not fitted"
    cells = " | ".join(errors.get(law, "–") for law in (*ORDER, "farseer"))
    return f"| {name} | {fits[0].rows} | {span} | {cells} |"


def _farseer(path: Path, where: tuple[str, ...]) -> str:
    """The error of Farseer's surface, where it can be fitted."""
    try:
        held = calc.fit_law(path, "farseer", where=where, refits=0).held_out
    except Refused:
        return "–"
    return "–" if held is None else f"{held.rms:.2%}"


def coverage_row(design: str) -> str:
    """The mean over constants and numbers of the optimum for each noise."""
    shares = " | ".join(f"{share(design, noise):.3f}" for noise in NOISES)
    return f"| {design} | {DESIGNS[design][0].size} | {shares} |"


def share(design: str, noise: str) -> float:
    return float(np.mean(list(coverage(design, noise, TABLES.get(design, 200), REFITS).values())))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in RUNS]
)
def test_held_out_errors_are_as_printed(name: str) -> None:
    assert {form.name for form in FORMS} == set(ORDER)
    row = held_out_row(name, reference.folder(), surface=name in SURFACES)
    printed = re.search(rf"^\| {re.escape(name)} \|.*$", DOCUMENT.read_text(), re.MULTILINE)
    assert printed
    *cells, surface = row.strip("| ").split(" | ")
    *told, shown = printed[0].strip("| ").split(" | ")
    assert cells == told
    if "–" in (surface, shown):
        assert surface == shown
    elif name in SURFACES:
        assert float(surface.rstrip("%")) == pytest.approx(float(shown.rstrip("%")), rel=ELSEWHERE)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_hold_what_they_say(design: str) -> None:
    """All printed shares between 0.92 and 0.98; one of a design, of each noise in turn, drawn anew, to what other
    rounding may change."""
    printed = re.search(rf"^\| {re.escape(design)} \|.*$", DOCUMENT.read_text(), re.MULTILINE)
    assert printed
    shares = dict(zip(NOISES, (float(cell) for cell in printed[0].split("|")[3:-1]), strict=True))
    assert min(shares.values()) >= 0.92
    assert max(shares.values()) <= 0.98
    noise = [*NOISES][list(DESIGNS).index(design) % len(NOISES)]
    assert share(design, noise) == pytest.approx(shares[noise], abs=0.005)


if __name__ == "__main__":
    print("\n".join(held_out_row(name, reference.folder()) for name in RUNS))
    print("\n".join(map(coverage_row, DESIGNS)))
