"""Constants of serving fitted anew to a table of measured servers: to all systems, and to each side of the split."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.serve.rates import FILE, Constants
from calc.spec import ModelSpec
from harness.serving.columns import Case, case_of
from harness.serving.fitting import consistent, errors, fit, fitted_systems, write
from harness.serving.possible import check_possible
from harness.serving.rows import ServedRow
from harness.serving.scoring import services

CONFIGS = {
    "minimax": "MiniMax-M2.5",
    "qwen3.5-397b": "Qwen3.5-397B-A17B",
    "llama-70b": "Llama-3.1-70B",
    "llama-8b": "Llama-3.1-8B",
    "kimi": "Kimi-K2.5",
    "deepseek": "DeepSeek-R1",
    "qwen3-32b": "Qwen3-32B",
    "qwen3-235b": "Qwen3-235B-A22B",
}
"""Family of a row's model -> the name of its config.json in a folder of such; gpt-oss-120b is a preset."""
SIDES = ("listed", "others")
"""The files of folds: fitted to the systems that split.toml lists, and to all others."""


def model_of(family: str, configs: Path) -> ModelSpec:
    """The model of a row. Errors: Refused where the folder has no such config."""
    if family == "gpt-oss":
        return load_model("gpt-oss-120b")
    return load_model(str(configs / f"{CONFIGS[family]}.json"))


def cases(rows: Iterable[ServedRow | Refused], configs: Path) -> list[Case]:
    """What constants are fitted to: rows that can be expressed, fit, are possible, have prompts beside answers, and
    whose series could be of one server."""
    return consistent(list(_cases(rows, configs)))


def _cases(rows: Iterable[ServedRow | Refused], configs: Path) -> Iterator[Case]:
    models: dict[str, ModelSpec] = {}
    for row in rows:
        if isinstance(row, Refused) or row.prefill is not None or row.tpot is None or row.ttft is None:
            continue
        if row.family not in models:
            models[row.family] = model_of(row.family, configs)
        spec = models[row.family]
        try:
            check_possible(row, services(row, spec)[0], None)
            case = case_of(row, spec)
        except Refused:
            continue
        if case.running >= 1:
            yield case


def refitted(known: Sequence[Case], rounds: int) -> dict[str, Constants]:
    """Constants by file: `constants` of all systems, and of each side of the split.

    Errors: Refused where a side has no row.
    """
    listed = fitted_systems("inferencemax")
    parts = {name: [case for case in known if (case.row.system in listed) == (name == SIDES[0])] for name in SIDES}
    for name, some in parts.items():
        if not some:
            raise Refused("TABLE", "rows of systems on both sides of calc/data/serving/split.toml", f"none of {name}")
    return {name: fit(some, rounds) for name, some in {"constants": known, **parts}.items()}


def unseen(known: Sequence[Case], found: Mapping[str, Constants]) -> dict[str, float]:
    """Medians of absolute errors of a token's seconds of each side, by constants that did not see it."""
    import numpy as np

    listed, medians = fitted_systems("inferencemax"), {}
    for name, other in zip(SIDES, reversed(SIDES), strict=True):
        some = [case for case in known if (case.row.system in listed) == (name == SIDES[0])]
        medians[name] = float(np.median(np.abs(np.exp(errors(some, found[other])[0]) - 1)))
    return medians


def save(found: Mapping[str, Constants], table: Path, folder: Path) -> list[Path]:
    """Write a data file each; the constants of all systems with the intervals and judgements of the shipped ones."""
    files = [folder / f"{name}.toml" for name in found]
    for file, (name, constants) in zip(files, found.items(), strict=True):
        if name not in SIDES:
            shutil.copyfile(FILE, file)
        systems = {"listed": "the systems that split.toml lists", "others": "the systems that split.toml does not list"}
        write(constants, f"{systems.get(name, 'all systems')}, of {table.name}", file)
    return files
