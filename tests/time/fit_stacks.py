"""How the constants of calc/data/stacks were found: `python -m tests.time.fit_stacks` prints them again.

Constants of a stack are those with the least absolute errors of log(measured / predicted) over the rows that
training_split.toml gives to the fit, dense models alone: robust, so that a row whose plan is told wrongly moves little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from calc.spec.clusters import load_cluster
from calc.spec.stack import Fitted, Stack, load_stack
from calc.time import predict
from tests.time.training_rows import TrainingRow, training_rows

BETWEEN = {"llm-foundry": False, "megatron-core": True, "torchtitan": False}
"""Stack -> whether its rows tell seconds between kernels from seconds within: steps of very different sizes do."""
LONGEST = 10.0
"""Microseconds that can pass between kernels which a host runs ahead of: to drain the device, and to fill it again."""
SOFT = 0.05
"""Error from which on a row counts by its absolute error, no longer by its square."""


def fit(name: str) -> Fitted:
    """The constants of the stack called `name`."""
    rows = [row for row in training_rows() if row.fitted and row.words.get("stack") == name and row.kind != "experts"]
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
    words: Mapping[str, Any] = {**row.words, "stack": stack}
    return predict(row.spec, load_cluster(row.words["cluster"]).gpu, phase="training", **words).seconds


def main() -> None:
    """Print every stack's table."""
    for name in BETWEEN:
        found = fit(name)
        print("[fitted]", f"on = {list(found.on)}", sep="\n")
        print("computing = {", ", ".join(f"{key} = {value:.3f}" for key, value in found.computing.items()), "}")
        print(f"kernel = {found.kernel:.2e}", end="\n\n")


if __name__ == "__main__":
    main()
