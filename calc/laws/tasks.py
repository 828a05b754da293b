"""What share of a benchmark a model of N parameters and D tokens solves: the two steps of OLMo's ladder.

Bhagia et al. 2024, Establishing Task Scaling Laws via Compute-Efficient Model Ladders (arXiv:2412.04403), with
constants fitted here to the runs that its repository holds (`calc/data/laws/olmo_ladder_tasks.toml` says how).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from calc.laws.arithmetic import exp, real
from calc.laws.base import Law
from calc.laws.parametric import Parametric
from calc.reading.files import parse_toml, read_text
from calc.sizes import Size

PATH = Path(__file__).parents[1] / "data" / "laws" / "olmo_ladder_tasks.toml"
HELD_OUT = {"7b": (6_887_575_552.0, 3.95e12), "13b": (13_202_396_160.0, 5e12)}
"""N and D of the models that no constant was fitted to."""

LADDER = Law(
    name="olmo-ladder",
    title="OLMo's ladder, tasks in two steps",
    equations=(),
    constants=(),
    params="parameters without embedding, with the output head",
    counts="without input embedding",
    compute="none: N and D are given",
    tokens="tokens of OLMo 2's mix; 5-shot, answers ranked by their likelihood for each byte",
    source="Bhagia et al. 2024 (arXiv:2412.04403), refitted to github.com/allenai/OLMo-ladder at 67a3f44",
    confirmed="refitted here",
    valid={"params": (1.9e8, 1.28e9), "tokens": (3.8e9, 2.56e11)},
)
"""What its N and D count, and between which sizes its runs lie; a range and a source, not a law of one loss."""


class Task(NamedTuple):
    """form: bits a byte of the right answers. measured: of the models in HELD_OUT, bits a byte and the share solved."""

    name: str
    metric: str
    chance: float
    form: Parametric
    slope: float
    middle: float
    measured: dict[str, tuple[float, float]]

    def bits(self, params: Size, tokens: Size) -> Size:
        """Bits a byte of the right answers, of N and D that are above 0."""
        return self.form.loss(real("--params", params), real("--tokens", tokens))

    def solved(self, bits: Size) -> Size:
        """The share that is solved at so many bits a byte, from `chance` to 1."""
        return self.chance + (1 - self.chance) / (1 + exp(self.slope * (bits - self.middle)))


@cache
def tasks() -> dict[str, Task]:
    """The tasks by name."""
    return {name: _task(name, row) for name, row in parse_toml(read_text(PATH), PATH.name).items()}


def _task(name: str, row: dict[str, Any]) -> Task:
    form = Parametric(row["E"], row["A"], row["B"], row["alpha"], row["beta"])
    measured = {model: tuple(row[f"measured_{model}"]) for model in HELD_OUT}
    return Task(name, row["metric"], row["chance"], form, row["slope"], row["middle"], measured)


def mean_error(model: str) -> float:
    """Mean over tasks of how far, as a share of what is measured, the share solved by a held-out model is off."""
    found = [abs(each.solved(each.bits(*HELD_OUT[model])) / each.measured[model][1] - 1) for each in tasks().values()]
    return sum(found) / len(found)
