"""How often 95 % intervals hold the truth: designs of runs, noises, and fits of many made-up tables."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import calc
from calc.fitting.forms import Array
from calc.fitting.optimum import optimum_at
from tests.fitting.surfaces import grid, losses

TRUTH = np.array([math.log(480), 0.348, math.log(2090), 0.348, math.log(1.817), 0.0])
"""About Besiroglu et al.'s; one exponent, so that a ladder of one ratio is exactly a power of compute."""
COMPUTE = 1e22


def isoflop() -> tuple[Array, Array]:
    """Seven sizes at each of five budgets, around the optimum."""
    compute = np.repeat(np.geomspace(1e18, 1e21, 5), 7)
    params = np.sqrt(compute / 120) * np.tile(np.geomspace(1 / 6, 6, 7), 5)
    return params, compute / (6 * params)


def ladder(sizes: int, ratios: tuple[float, ...]) -> tuple[Array, Array]:
    """So many sizes, each at every ratio of tokens to parameters."""
    params = np.repeat(np.geomspace(3e7, 3e9, sizes), len(ratios))
    return params, params * np.tile(ratios, sizes)


def scattered(count: int) -> tuple[Array, Array]:
    random = np.random.default_rng(7)
    return 10 ** random.uniform(7.3, 9.8, count), 10 ** random.uniform(8.7, 11.2, count)


def corner() -> tuple[Array, Array]:
    """Small models of many tokens and large ones of few: an L."""
    params = np.concatenate([np.full(10, 3e7), np.geomspace(6e7, 6e9, 10), np.full(6, 4e8)])
    tokens = np.concatenate([np.geomspace(3e8, 1e11, 10), np.full(10, 2e9), np.geomspace(4e9, 6e10, 6)])
    return params, tokens


DESIGNS: dict[str, tuple[Array, Array]] = {
    "grid, 6 × 6": grid(),
    "isoFLOP, 5 × 7": isoflop(),
    "ladder, 6 × 4 ratios": ladder(6, (5, 20, 80, 320)),
    "ladder, 8 × 2 ratios": ladder(8, (10, 160)),
    "scattered, 40": scattered(40),
    "scattered, 200": scattered(200),
    "an L of 26": corner(),
    "one ratio, 40 sizes": ladder(40, (20,)),
    "one ratio, 24 sizes": ladder(24, (20,)),
}
SEEDS = {"one ratio, 24 sizes": 7}
"""A design whose first 200 tables of heavy-tailed noise held 0.990, and the seed with which that was seen."""
TABLES = {"one ratio, 24 sizes": 1000}
"""How many tables are drawn where it is not 200: constants that move as one are held together, so that of 200 tables
a share of 0.96 is known to 0.013."""
Noise = Callable[[np.random.Generator, int], Array]
NOISES: dict[str, Noise] = {
    "0.3 %": lambda random, n: random.normal(0, 0.003, n),
    "1 %": lambda random, n: random.normal(0, 0.01, n),
    "t of 3, 0.3 %": lambda random, n: 0.003 * random.standard_t(3, n),
}


def coverage(design: str, noise: str, tables: int, refits: int) -> dict[str, float]:
    """Of each constant and number of the optimum, the share of tables whose interval holds the truth."""
    params, tokens = DESIGNS[design]
    exact, seed = losses(TRUTH, params, tokens), SEEDS.get(design, list(DESIGNS).index(design))
    held: dict[str, list[bool]] = {}
    for table in range(tables):
        random = np.random.default_rng([seed, list(NOISES).index(noise), table])
        loss = exact * np.exp(NOISES[noise](random, params.size))
        fit = calc.fit(calc.Runs(params, tokens, loss), refits=refits, compute=COMPUTE, seed=table)
        for name, value in truth(fit.law).items():
            band = fit.intervals.get(name)
            held.setdefault(name, []).append(band is not None and band.low <= value <= band.high)
    return {name: float(np.mean(each)) for name, each in held.items()}


def truth(law: str) -> dict[str, float]:
    """The constants of the form, and the optimum where it has one."""
    ln_a, alpha, ln_b, beta, ln_e, _ = TRUTH
    if law == "compute":
        k = (math.exp(ln_a) + math.exp(ln_b) / 20**alpha) * 120 ** (alpha / 2)
        return {"E": math.exp(ln_e), "gamma": alpha / 2, "K": k}
    best = optimum_at(TRUTH[None], COMPUTE)
    return {
        "A": math.exp(ln_a),
        "B": math.exp(ln_b),
        "E": math.exp(ln_e),
        "alpha": alpha,
        "beta": beta,
        "params": float(best.params[0]),
        "loss": float(best.loss[0]),
    }
