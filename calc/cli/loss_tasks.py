"""`loss --task`: what share of benchmarks a model solves."""

from __future__ import annotations

from typing import Any

from calc import checks
from calc.errors import Refused
from calc.laws import DEFAULT
from calc.laws.tasks import LADDER, mean_error, tasks
from calc.output.tables import Table, sentences


def solved(task: str, law: str, chart: str | None, given: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Table]]:
    """What share of benchmarks is solved. Errors: Refused for an unknown one, and for what the ladder does not read."""
    if task != "all":
        checks.word("--task", task, ("all", *tasks()))
    params, tokens = given.pop("params"), given.pop("tokens")
    if params is None or tokens is None:
        raise Refused("--task", "--params and --tokens beside it", task)
    more = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    more += ["--law"] * (law != DEFAULT) + ["--chart"] * (chart is not None)
    if more:
        raise Refused(more[0], "no --task beside it, which has a law of its own", task)
    chosen = list(tasks().values()) if task == "all" else [tasks()[task]]
    found = [(each.name, bits := each.bits(params, tokens), each.solved(bits), each.chance) for each in chosen]
    outside = LADDER.outside(params=params, tokens=tokens)
    held = (
        f"shares off by {mean_error('7b'):.1%} for OLMo 2 7B on 4T tokens and by {mean_error('13b'):.1%} for 13B on 5T"
    )
    words = [
        ("convention", f"N: {LADDER.params}; D: {LADDER.tokens}"),
        ("held out", f"{held}, of what is measured, as a mean over {len(tasks())} tasks"),
        ("source", LADDER.source),
        *(("warning", warning) for warning in outside),
    ]
    rows = [(name, f"{bits:.4f}", f"{solved:.1%}", f"{chance:.0%}") for name, bits, solved, chance in found]
    columns = ("task", "bits a byte", "solved", "by guessing")
    records = [
        {"task": name, "params": params, "tokens": tokens, "bits_per_byte": bits, "solved": solved, "chance": chance}
        | {"in_range": not outside, "warnings": list(outside), "source": LADDER.source}
        for name, bits, solved, chance in found
    ]
    title = f"share of benchmarks solved by {params:.4g} parameters on {tokens:.4g} tokens"
    return records, [Table(columns, rows, title), sentences(words)]
