"""Which shape: a grid of widths and depths of a family under a budget, each with its best plan, time and loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from pydantic import ValidationError

from calc.errors import Refused
from calc.laws import find
from calc.laws.base import Law
from calc.optimum.costs import counted
from calc.plan.answer import Answer, Plan
from calc.plan.planning import answer
from calc.plan.question import Question
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from calc.spec.resizing import sizes_of, with_sizes
from calc.workers.job import Progress, one_by_one
from calc.workers.workers import HERE, Workers

MOST = 24
"""Shapes that are planned, those with the most parameters that the budget allows first."""
LARGEST_GRID = 10_000
TILE = 128
"""Widths are multiples of it, and feed-forward widths of twice it: matrix units work in such tiles."""


class Shaped(NamedTuple):
    """sizes: by symbol name. params: all of them. plan: the best, None where none fits. loss: nats a token by the law,
    None where it predicts none. days: of the whole run, None without tokens or a plan."""

    sizes: Mapping[str, int]
    params: int
    plan: Plan | None
    loss: float | None
    days: float | None


class Grid(NamedTuple):
    """shapes: the fastest first, those without a plan last. ruled: how many others there were, by why. interrupted:
    whether the search was ended before all of them, or all plans of the last, were looked at."""

    shapes: tuple[Shaped, ...]
    ruled: Mapping[str, int]
    interrupted: bool = False


def search_grid(
    question: Question,
    axes: Mapping[str, Sequence[int]],
    law: str,
    *,
    most_params: float | None = None,
    flops: float | None = None,
    tokens: float | None = None,
    progress: Progress | None = None,
    workers: Workers = HERE,
) -> Grid:
    """The shapes of a grid around the model of a question, with plan, time and loss.

    axes: size -> values. Heads keep their width, d_ff its ratio to d_model unless it is an axis. most_params: of all
    parameters. flops: of training, 6 N D, whose tokens follow from the size; else every shape trains on `tokens`.
    Ctrl-C ends the search: what was found until then is the answer.
    Errors: Refused for a name that is no size, a grid of too many shapes, and a budget that no shape meets;
    KeyboardInterrupt where nothing was found until then.
    """
    ruled: dict[str, int] = {"not divisible": 0, "beyond the budget": 0, "smaller than others": 0}
    built = _buildable(question.spec, axes, most_params, ruled)
    if not built:
        found = ", ".join(f"{shapes:,} {why}" for why, shapes in ruled.items() if shapes) or "no shape"
        raise Refused("--model-grid", "a grid with a shape that is divisible and within the budget", found)
    built.sort(key=lambda each: -each[2])
    ruled["smaller than others"] = max(len(built) - MOST, 0)
    how = find(law)
    shapes: list[Shaped] = []
    interrupted = False
    try:
        for sizes, made, params in one_by_one("shapes", built[:MOST], progress):
            own = flops / (6 * params) if flops is not None else tokens
            posed = question.of_shape(made, sizes)
            answered = answer([posed], top=1, workers=workers)
            # Of a shape without a plan it is not known after an interrupt that none fits.
            if answered.plans or not answered.interrupted:
                shapes.append(_shaped(posed, answered, sizes, params, own, how))
            if answered.interrupted:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        if not shapes:
            raise
        interrupted = True
        ruled["left by the interrupt"] = min(len(built), MOST) - len(shapes)
    shapes.sort(key=lambda each: (each.plan is None, each.days or (each.plan.seconds if each.plan else 0.0)))
    return Grid(tuple(shapes), ruled, interrupted)


def _buildable(
    spec: ModelSpec, axes: Mapping[str, Sequence[int]], most_params: float | None, ruled: dict[str, int]
) -> list[tuple[dict[str, int], ModelSpec, int]]:
    """(sizes, model, parameters) of the shapes that can be built within the budget; the others are counted in ruled."""
    built: list[tuple[dict[str, int], ModelSpec, int]] = []
    for sizes in _grid(spec, axes):
        made = _built(spec, sizes)
        if made is None:
            ruled["not divisible"] += 1
            continue
        params = int(sum(parameters(made).values()))
        if most_params is not None and params > most_params:
            ruled["beyond the budget"] += 1
            continue
        built.append((sizes, made, params))
    return built


def _grid(spec: ModelSpec, axes: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """Every combination of sizes."""
    known, count = sizes_of(spec), 1
    for name, values in axes.items():
        if name not in known:
            raise Refused("--model-grid", f"a size of {spec.name}: {', '.join(known)}", name)
        count *= len(values)
    if count > LARGEST_GRID:
        raise Refused("--model-grid", f"at most {LARGEST_GRID:,} shapes", f"{count:,}")
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _built(spec: ModelSpec, chosen: Mapping[str, int]) -> ModelSpec | None:
    """The model of these sizes with what follows from them; None where its parts are not divisible or no tiles."""
    known = sizes_of(spec)
    sizes = dict(chosen)
    width = sizes.get("d_model", known["d_model"])
    if width % TILE:
        return None
    if "d_model" in sizes and "n_heads" not in sizes and "n_heads" in known:
        d_head = known.get("d_head") or known["d_model"] // known["n_heads"]
        if width * known["n_heads"] % known["d_model"]:
            return None
        sizes["n_heads"] = width * known["n_heads"] // known["d_model"]
        if "d_head" not in known and width % sizes["n_heads"]:
            return None
        if "d_head" in known:
            sizes["d_head"] = d_head
    if "d_model" in sizes and "d_ff" in known and "d_ff" not in sizes:
        sizes["d_ff"] = -(-known["d_ff"] * width // (known["d_model"] * 2 * TILE)) * 2 * TILE
    try:
        changed = with_sizes(spec, sizes).model_copy(update={"schedule": None})
        return ModelSpec.model_validate(changed.model_dump())
    except (Refused, ValidationError, ArithmeticError):
        return None


def _shaped(
    question: Question, found: Answer, sizes: Mapping[str, int], params: int, tokens: float | None, law: Law
) -> Shaped:
    """One shape with its best plan."""
    plan = found.plans[0] if found.plans else None
    loss = None if tokens is None or law.parametric is None else _loss(question.spec, tokens, law)
    days = None if tokens is None or plan is None else plan.whole_run(tokens).days
    return Shaped(sizes, params, plan, loss, days)


def _loss(spec: ModelSpec, tokens: float, law: Law) -> float:
    from calc.optimum import loss

    return float(loss(law.name, params=counted(spec, law.counts), tokens=tokens).loss)
