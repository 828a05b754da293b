"""How the constants of calc/data/stacks were found: `python -m tests.time.fit_stacks` prints them again.

Constants of a stack are those with the least absolute errors of log(measured / predicted) over the rows that
training_split.toml gives to the fit: robust, so that a row whose plan is told wrongly moves little. Left out are rows
whose recipe has activations of some layers on the host, of whose copies no constant was fitted. Dense models tell
how long computing takes and what passes between kernels; with these, models of experts tell what passes between theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from calc.errors import Refused
from calc.spec.clusters import load_cluster
from calc.spec.stack import Fitted, Stack, load_stack
from calc.time import predict
from tests.time.bridge_recipes import as_set
from tests.time.training_rows import TrainingRow, training_rows

BETWEEN = {"llm-foundry": False, "megatron-core": True, "torchtitan": False}
"""Stack -> whether its rows tell seconds between kernels from seconds within: steps of very different sizes do."""
LONGEST = 10.0
"""Microseconds that can pass between kernels which a host runs ahead of: to drain the device, and to fill it again."""
UNLIKE = ("Nemotron-3-Super-120B-A12B",)
"""Models left out of the fit of experts: steps of this one, of Mamba-2 layers and experts in latents, are told
too fast with what all others say, and a constant for all would spread that to them. docs/prediction-measured.md says
what comes out with it."""
SOFT = 0.05
"""Error from which on a row counts by its absolute error, no longer by its square."""


def fit(name: str) -> Fitted:
    """The constants of the stack called `name`; what its rows do not tell is as its file has it."""
    rows = [
        row for row in training_rows() if row.fitted and row.words["stack"].name == name and "offload" not in row.words
    ]
    dense = [row for row in rows if row.kind != "experts"]
    found = fit_dense(name, dense) if dense else load_stack(name).fitted
    of_experts = [row for row in rows if row.kind == "experts" and row.spec.name not in UNLIKE]
    experts = fit_experts(name, of_experts, found)
    on = tuple(sorted({f"{row.source}: {row.system}" for row in rows}))
    return found.model_copy(update={"on": on, "experts": experts})


def fit_experts(name: str, rows: Sequence[TrainingRow], known: Fitted) -> float | None:
    """Seconds between kernels of models with routed experts that hosts launch, beside the constants that are known;
    None where no row of one is told."""
    some = [row for row in rows if _told(row)]
    if not some:
        return None

    def errors(microseconds: Sequence[float]) -> Any:
        fitted = known.model_copy(update={"experts": 1e-6 * abs(float(microseconds[0]))})
        own = load_stack(name).model_copy(update={"fitted": fitted})
        return np.array([np.log(row.seconds / _seconds(row, own)) for row in some])

    found = least_squares(errors, [20.0], loss="soft_l1", f_scale=SOFT, diff_step=1e-2, max_nfev=15)
    error = np.abs(np.exp(-found.fun) - 1)
    print(f"# {name}: {len(some)} rows of experts, median error {np.median(error):.1%}")
    return 1e-6 * abs(float(found.x[0]))


def _told(row: TrainingRow) -> bool:
    """Whether anything is told of a row's plan."""
    try:
        return _seconds(row, row.words["stack"]) > 0
    except Refused:
        return False


def fit_dense(name: str, rows: Sequence[TrainingRow]) -> Fitted:
    """The constants that rows of models without experts tell."""
    stack, devices = load_stack(name), sorted({load_cluster(row.words["cluster"]).gpu for row in rows})
    start = np.array([0.1] * len(devices) + [5.0] * BETWEEN[name])

    def errors(constants: Sequence[float]) -> Any:
        own = stack.model_copy(update={"fitted": _fitted(rows, devices, constants)})
        return np.array([np.log(row.seconds / _seconds(row, own)) for row in rows])

    most = [1.0] * len(devices) + [LONGEST] * BETWEEN[name]
    bounds = [0.0] * len(start), most
    found = least_squares(errors, start, loss="soft_l1", f_scale=SOFT, diff_step=1e-2, max_nfev=15, bounds=bounds)
    error = np.abs(np.exp(-found.fun) - 1)
    print(f"# {name}: {len(rows)} rows, median error {np.median(error):.1%}")
    return _fitted(rows, devices, found.x)


def _fitted(rows: Sequence[TrainingRow], devices: Sequence[str], constants: Sequence[float]) -> Fitted:
    """Logarithms of factors on computing, then microseconds between kernels."""
    factors = {device: float(np.exp(each)) for device, each in zip(devices, constants, strict=False)}
    kernel = sum(1e-6 * abs(float(each)) for each in constants[len(devices) :])
    other = min(factors.values())
    on = tuple(sorted({f"{row.source}: {row.system}" for row in rows}))
    return Fitted(on=on, computing={**factors, "other": other}, kernel=kernel)


def _seconds(row: TrainingRow, stack: Stack) -> float:
    words: Mapping[str, Any] = {**row.words, "stack": as_set(stack, row.sets)}
    return predict(row.spec, load_cluster(row.words["cluster"]).gpu, phase="training", **words).seconds


def main() -> None:
    """Print every stack's table."""
    for name in BETWEEN:
        found = fit(name)
        print("[fitted]", f"on = {list(found.on)}", sep="\n")
        print("computing = {", ", ".join(f"{key} = {value:.3f}" for key, value in found.computing.items()), "}")
        print(f"kernel = {found.kernel:.2e}")
        print(*([] if found.experts is None else [f"experts = {found.experts:.2e}"]), end="\n\n")


if __name__ == "__main__":
    main()
