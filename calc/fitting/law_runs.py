"""Runs as the equation of a law takes them: which column is which of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from calc.errors import Refused
from calc.fitting import doubts
from calc.fitting.cells import UNITS, as_numbers
from calc.fitting.columns import KNOWN, listed, named
from calc.fitting.fit import Source
from calc.fitting.forms import Array
from calc.fitting.runs import Runs, distinct, table, valid
from calc.laws import Equation, Law

INPUTS = {**KNOWN, "compute": KNOWN["flops"]}


class LawRuns(NamedTuple):
    """Runs as the equation takes them. curve: the run of each row, where a column names it. plain: the same runs where
    the equation takes N and D alone, for what is said of runs that do not belong.
    """

    equation: Equation
    inputs: dict[str, Array]
    loss: Array
    curve: np.ndarray[Any, Any] | None
    columns: dict[str, str]
    notes: list[str]
    plain: Runs | None = None

    def where(self, chosen: np.ndarray[Any, Any]) -> LawRuns:
        """The rows that an index keeps."""
        curve = None if self.curve is None else self.curve[chosen]
        inputs = {name: values[chosen] for name, values in self.inputs.items()}
        plain = None if self.plain is None else self.plain.where(chosen)
        return self._replace(inputs=inputs, loss=self.loss[chosen], curve=curve, plain=plain)

    @property
    def six_nd(self) -> Array | None:
        """Training FLOP of each run as 6 N D; None where the equation takes something else."""
        if not {"params", "tokens"} <= set(self.inputs):
            return None
        return 6 * self.inputs["params"] * self.inputs["tokens"]


def read_for(
    runs: Source, law: Law, columns: Mapping[str, str], where: Sequence[str], skip: bool, shares: Sequence[str] = ()
) -> LawRuns:
    """What the equation of a law that takes the most of the columns there are needs of the runs.

    shares: of its inputs, those that are parts of a whole.
    Errors: Refused for what `calc.fitting.runs.read` refuses, a law that predicts no loss, and missing columns.
    """
    if isinstance(runs, Runs):
        curve = {} if runs.curve is None else {"run": runs.curve}
        runs = {"params": runs.params, "tokens": runs.tokens, "loss": runs.loss, **curve}
    frame, name = table(runs, where)
    equations = [each for each in law.equations if each.gives == "loss"]
    if not equations:
        raise Refused("law", "a law that predicts a loss", law.name)
    takes = {what for each in equations for what in each.takes}
    there = {what: columns.get(what) or named(frame, INPUTS.get(what, what)) or "" for what in (*takes, "loss")}
    usable = [each for each in equations if all(there[what] in frame.columns for what in (*each.takes, "loss"))]
    if not usable:
        ways = " or ".join(", ".join(each.takes) for each in equations)
        raise Refused(name, f"columns of loss and of {ways}", listed(frame))
    # Inputs that say more than compute alone come first where there are as many.
    equation = max(
        usable, key=lambda each: (len(each.takes), each.takes[0] not in ("compute", "compute_min", "compute_naive"))
    )
    chosen = {what: there[what] for what in (*equation.takes, "loss")}
    notes = [*doubts.marked(frame, chosen)]
    numbers = {column: as_numbers(frame[column], UNITS.get(what, "")) for what, column in chosen.items()}
    run = columns.get("run") or named(frame, KNOWN["run"])
    if run is not None and run not in frame.columns:
        raise Refused(name, f"a column {run}", listed(frame))
    frame, numbers = valid(frame, numbers, name, skip, notes, zero=shares)
    frame, numbers = distinct(frame, numbers, run, notes)
    if shares:
        total = np.sum([numbers[each] for each in shares], axis=0)
        worst = float(total[np.abs(total - 1).argmax()])
        if abs(worst - 1) > 0.01:
            raise Refused(name, f"shares in {', '.join(shares)} that come to 1 in every row", f"{worst:.3g}")
    inputs = {what: numbers[chosen[what]] for what in equation.takes}
    curve = None if run is None else frame[run].astype(str).to_numpy()
    found = LawRuns(equation, inputs, numbers[chosen["loss"]], curve, chosen, notes)
    if set(inputs) != {"params", "tokens"}:
        return found
    arrays = inputs["params"], inputs["tokens"], found.loss
    notes += doubts.odd_values(*arrays)
    known = chosen if run is None else chosen | {"run": run}
    row, pools = frame.index.to_numpy() + 1, doubts.pooled(frame, known)
    return found._replace(plain=Runs(*arrays, curve=curve, row=row, pools=pools))
