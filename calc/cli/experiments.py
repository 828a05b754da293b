"""`experiments`: which runs to make before a large one."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from calc.cli import options
from calc.cli.amounts import Amount
from calc.cli.options import Length
from calc.errors import Refused
from calc.laws import DEFAULT, Law, Parametric, find
from calc.laws.step_law import STEP_LAW
from calc.output.progress import Progress
from calc.output.tables import Table, emit
from calc.reading.numbers import Number
from calc.units import si

if TYPE_CHECKING:
    from calc.fitting.sweeps import Design, Promise
    from calc.optimum.shapes import Shape
    from calc.spec import ModelSpec

    Simulated = tuple[Design, Promise, dict[float, Shape]]

_FACTORS = (0.25, 1, 4)
"""Of the budget, for which the best design's width is told: what more FLOP would buy, and less cost."""
_HOLDS = 0.85
"""Share of a design's intervals that must hold the truth, or its width is no promise."""


@click.command(short_help="Which training runs to make with a budget, for the surest answer at a larger compute.")
@click.option("--budget", type=Amount("FLOP"), required=True, help="FLOPs of all experiments together.")
@click.option("--target", type=Amount("FLOP"), required=True, help="FLOPs of the run that they are to plan.")
@click.option("--law", default=DEFAULT, show_default=True, help="A law of L(N, D), around whose optima designs lie.")
@click.option(
    "--noise", type=Number(above=0), help="Of the loss from run to run, a part of it below 1. [default: 0.004]"
)
@click.option("--family", metavar="MODEL", default="gpt2", show_default=True, help="Whose sizes the runs have.")
@click.option("--seq", type=Length(), default=2048, show_default=True, help="Tokens in a sequence.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the simulation.")
@click.option("--out", metavar="FILE.csv", help="Write the best design's runs to a file that is not there yet.")
@click.option("--launch", metavar="FOLDER", help="Write a launch file for each of them, with --cluster, --gpus, --as.")
@click.option("--cluster", metavar="NAME", help="With --launch: one of `clusters`, or a TOML file.")
@click.option("--gpus", type=click.IntRange(1), help="With --launch: of it, for each run.")
@click.option("--as", "tool", metavar="TOOL", help="With --launch: megatron-core, torchtitan, deepspeed, fsdp2, …")
@options.output
def experiments(
    budget: float,
    target: float,
    law: str,
    noise: float | None,
    family: str,
    seq: int,
    seed: int,
    out: str | None,
    launch: str | None,
    cluster: str | None,
    gpus: int | None,
    tool: str | None,
    fmt: str,
) -> None:
    """Compare designs of experiments of one budget by how wide the interval of a fit to them is at the target.

    Each design, of sizes that exist, is simulated: losses of the law with noise, a fit, its 95 % interval; medians of
    40 such tables; of the best also for a quarter of the budget and for four times it. The runs of the best are listed,
    and written as CSV, to which only the losses are to be added; --launch writes the fastest plan of each, as
    `plan --as` does.

    \b
    Examples:
      python -m calc experiments --budget 1e20 --target 1e22
      python -m calc experiments --budget 1e21 --target 1e24 \\
          --family llama-3-8b --out path/to/runs.csv
      python -m calc experiments --budget 1e20 --target 1e22 \\
          --launch path/to/out --cluster dgx-h100 --gpus 8 --as fsdp2
    """
    from calc.cli.experiments_launch import Launches
    from calc.fitting import sweeps
    from calc.optimum.launch import practice_command, runs

    entry, form = _surface(law)
    _refuse_contradictions(budget, target, noise, out)
    if launch is None and (cluster, gpus, tool) != (None, None, None):
        raise Refused("--launch", "a folder beside --cluster, --gpus and --as", "none")
    launches = None if launch is None else Launches(launch, cluster, gpus, tool, seq)
    noise = noise or sweeps.NOISE
    found, scaled = _compared(_Simulation(entry, form, options.read_model(family), target, noise, seed), budget)
    best, promised, models = found[0]
    rows = runs(best, models, entry, seq, gpus or 1)
    written = [] if launches is None else list(launches.write(rows, models))
    compared = [each[:2] for each in found]
    records = [*(_record(*each) for each in compared), *({"design": best.name} | row for row in rows)]
    records += [_record(*each) | {"scaled": True} for each in scaled if each[0] is not best]
    tables = [_designs(compared, target, noise), _scaled(scaled, promised), _runs(rows, practice_command(best))]
    emit(records, tables, fmt)
    for note in written:
        click.echo(f"note: {note}", err=True)
    if out is not None:
        _write(rows, out)


def _refuse_contradictions(budget: float, target: float, noise: float | None, out: str | None) -> None:
    """Errors: Refused for a question without an answer, and for a file that is there already."""
    if target <= budget:
        raise Refused("--target", "more FLOP than --budget, which would pay for the run itself", f"{target:.3g}")
    if noise is not None and noise >= 1:
        raise Refused("--noise", "less than 1: a part of the loss", f"{noise:g}")
    if out is not None and Path(out).exists():
        raise Refused("--out", "a file that is not there yet", out)


class _Simulation(NamedTuple):
    """What designs are simulated by."""

    law: Law
    form: Parametric
    spec: ModelSpec
    target: float
    noise: float
    seed: int

    def designs(self, flop: float, names: Collection[str], progress: Progress) -> list[Simulated]:
        """Those of these names that cost so much, of sizes that exist, and what they promise."""
        from calc.fitting import sweeps
        from calc.optimum.launch import existing

        made = [existing(each, self.law, self.spec) for each in sweeps.designs(self.form, flop) if each.name in names]
        return [
            (each, sweeps.promise(each, self.form, self.target, self.noise, self.seed, progress), models)
            for each, models in made
            if each.params.size >= sweeps.FEWEST
        ]


def _compared(simulation: _Simulation, budget: float) -> tuple[list[Simulated], list[tuple[Design, Promise]]]:
    """(every design of the budget, the best first, the best also for a part of it and for more).

    Errors: Refused where nothing fits the budget, or nothing tells the loss at the target.
    """
    from calc.fitting.sweeps import FEWEST, NAMES

    progress = Progress()
    try:
        found = simulation.designs(budget, NAMES, progress)
        found.sort(key=lambda each: (each[1].held < _HOLDS, each[1].loss))
        if not found:
            raise Refused("--budget", f"enough FLOP for {FEWEST} runs of the sizes of --family", f"{budget:.3g}")
        best = found[0]
        if best[1].held < _HOLDS:
            expected = "less, or a larger --budget: no design tells the loss at --target"
            raise Refused("--noise", expected, simulation.noise)
        scaled = [
            each[:2]
            for factor in _FACTORS
            if factor * budget < simulation.target
            for each in ([best] if factor == 1 else simulation.designs(factor * budget, (best[0].name,), progress))
        ]
    finally:
        progress.close()
    return found, scaled


def _surface(law: str) -> tuple[Law, Parametric]:
    """The law of a name and its L(N, D). Errors: Refused for a law of another form."""
    entry = find(law)
    form = None if entry.parametric is None else entry.parametric(entry.k)
    if not isinstance(form, Parametric):
        raise Refused("--law", "a law of the form E + A / N^alpha + B / D^beta", law)
    return entry, form


def _write(rows: Sequence[Mapping[str, Any]], path: str) -> None:
    """The runs as CSV, in a new file."""
    with Path(path).open("x", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _record(design: Design, promise: Promise) -> dict[str, Any]:
    return {
        "design": design.name,
        "runs": design.params.size,
        "flop": design.flop,
        "largest_flop": float(design.six_nd.max()),
        "loss_width": None if math.isinf(promise.loss) else promise.loss,
        "params_ratio": None if math.isinf(promise.params) else promise.params,
        "held": promise.held,
        "found": promise.found,
    }


def _designs(found: list[tuple[Design, Promise]], target: float, noise: float) -> Table:
    rows = [
        (
            design.name,
            f"{design.params.size}",
            f"{design.flop:.2e}",
            f"{design.six_nd.max():.2e}",
            "–" if math.isinf(promise.loss) else f"{promise.loss:.2%}",
            "–" if math.isinf(promise.params) else f"{promise.params:.2f}",
            f"{promise.held:.0%}",
        )
        for design, promise in found
    ]
    columns = ("design", "losses", "FLOP", "largest", "loss, width", "N, high / low", "hold the truth")
    title = f"95 % intervals at {target:.3g} FLOP of fits to designs of experiments"
    return Table(
        columns, rows, title, f"by simulation with a noise of {noise:.2%}; the narrowest that holds comes first"
    )


def _scaled(found: list[tuple[Design, Promise]], promised: Promise) -> Table:
    """What the best design would tell for less and for more FLOP."""
    rows = [
        (
            f"{design.flop:.2e}",
            f"{design.params.size}",
            "–" if math.isinf(promise.loss) else f"{promise.loss:.2%}",
            "–" if math.isinf(promise.loss) else f"{promise.loss / promised.loss:.2f}",
            "–" if math.isinf(promise.params) else f"{promise.params:.2f}",
        )
        for design, promise in found
    ]
    columns = ("FLOP", "losses", "loss, width", "over this one's", "N, high / low")
    return Table(columns, rows, "the first design for less and for more")


def _runs(rows: list[dict[str, Any]], practice: str) -> Table:
    columns = ("run", "N", "tokens", "lr", "batch", "steps", "FLOP", "d_model", "layers")
    shown = [
        (
            row["run"],
            si(row["params"]),
            si(row["tokens"]),
            "–" if row["lr"] is None else f"{row['lr']:.3g}",
            si(row["batch_tokens"]),
            f"{row['steps']:,}",
            f"{row['flops']:.2e}",
            f"{row['d_model']}",
            f"{row['n_layers']}",
        )
        for row in rows
    ]
    far = sum(bool(STEP_LAW.outside(tokens=row["tokens"], params=row["without_embeddings"])) for row in rows)
    outside = f", {far} of {len(rows)} runs outside of its range" if far else ""
    note = f"lr and batch by step-law ({STEP_LAW.second_hand}{outside});\nto practise on tiny models:\n{practice}"
    return Table(columns, shown, "runs of the first design", note)
