"""Constants of serving fitted anew to tables of measurements: to all systems, and to each side of the split."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.serve.constants import FILE, Constants, constants, file_of
from calc.spec import ModelSpec
from harness.serving.columns import Case, case_of
from harness.serving.expert_kernels import expert_tables, measured_experts
from harness.serving.fitting import ROUNDS, consistent, errors, fit, fitted_systems, write
from harness.serving.local import LocalRow, local_case, local_rows, local_speeds
from harness.serving.local_fitting import local_fit
from harness.serving.possible import check_possible
from harness.serving.request_fitting import request_fit
from harness.serving.rows import ServedRow, inferencemax
from harness.serving.scoring import folds, services

CONFIGS = {
    "minimax": "MiniMax-M2.5",
    "qwen3.5-397b": "Qwen3.5-397B-A17B",
    "llama-70b": "Llama-3.1-70B",
    "llama-8b": "Llama-3.1-8B",
    "kimi": "Kimi-K2.5",
    "deepseek": "DeepSeek-R1",
    "qwen3-32b": "Qwen3-32B",
    "qwen3-235b": "Qwen3-235B-A22B",
    "gpt-oss": "gpt-oss-120b",
}
"""Family of a row's model -> the name of its config.json in a folder of such, or of a preset."""
SIDES = ("listed", "others")
"""Of the split: systems that split.toml lists, and all others."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit is of. table: of split.toml; shipped: the data file of constants; lead: of the names of the files of
    each side. read: cases from a table and folders of configs; fit: constants from cases, of so many rounds at most;
    off: logarithms of predicted over measured seconds."""

    table: str
    shipped: Path
    lead: str
    read: Callable[[Path, Sequence[Path]], list[Any]]
    fit: Callable[[Sequence[Any], int], dict[str, float]]
    off: Callable[[Sequence[Any], Constants], Any]


class Unseen(NamedTuple):
    """How wrong a side's seconds are by constants that did not see it: median and mean of absolute errors; low, high:
    measured over predicted, of which a twentieth is less and a twentieth more."""

    rows: int
    median: float
    mean: float
    low: float
    high: float


def model_of(name: str, configs: Sequence[Path]) -> ModelSpec:
    """The model of a config in the first folder that has it, else a preset. Errors: Refused where neither is."""
    files = [path for folder in configs if (path := folder / f"{name}.json").exists()]
    return load_model(str(files[0]) if files else name)


def served_model(family: str, configs: Sequence[Path]) -> ModelSpec:
    """The model of a measured server's row."""
    return model_of(CONFIGS[family], configs)


def cases(rows: Iterable[ServedRow | Refused], configs: Sequence[Path]) -> list[Case]:
    """What constants of servers are fitted to: rows that can be expressed, fit, are possible, have prompts beside
    answers, and whose series could be of one server."""
    return consistent(list(_cases(rows, configs)))


def _cases(rows: Iterable[ServedRow | Refused], configs: Sequence[Path]) -> Iterator[Case]:
    models: dict[str, ModelSpec] = {}
    for row in rows:
        if isinstance(row, Refused) or row.prefill is not None or row.tpot is None or row.ttft is None:
            continue
        if row.family not in models:
            models[row.family] = served_model(row.family, configs)
        spec = models[row.family]
        try:
            check_possible(row, services(row, spec)[0], None)
            case = case_of(row, spec)
        except Refused:
            continue
        if case.running >= 1:
            yield case


def _local_off(some: Sequence[Any], given: Constants) -> Any:
    import numpy as np

    return -np.log(local_speeds(some, given))


FITTED = {
    "servers": Fitted(
        table="inferencemax",
        shipped=FILE,
        lead="",
        read=lambda table, configs: cases(inferencemax(table), configs),
        fit=fit,
        off=lambda some, given: errors(some, given)[0],
    ),
    "llama.cpp": Fitted(
        table="llama_cpp",
        shipped=file_of("llama.cpp"),
        lead="llama_cpp_",
        read=lambda table, configs: [
            local_case(row, model_of(row.family, configs)) for row in local_rows(table) if isinstance(row, LocalRow)
        ],
        fit=local_fit,
        off=_local_off,
    ),
}
"""What constants are of -> how they are fitted."""


def side(kind: Fitted, known: Sequence[Any], name: str) -> list[Any]:
    """The cases of one side of the split."""
    listed = fitted_systems(kind.table)
    return [case for case in known if (case.row.system in listed) == (name == SIDES[0])]


def refitted(kind: Fitted, known: Sequence[Any], rounds: int = ROUNDS) -> dict[str, Constants]:
    """Constants by the name of their file: of all systems, and of each side of the split.

    Errors: Refused where a side has no row.
    """
    parts = {f"{kind.lead}{name}": side(kind, known, name) for name in SIDES}
    for name, some in parts.items():
        if not some:
            raise Refused("TABLE", "rows of systems on both sides of calc/data/serving/split.toml", f"none of {name}")
    return {name: kind.fit(some, rounds) for name, some in {kind.shipped.stem: known, **parts}.items()}


def refitted_requests(known: Sequence[Case], rounds: int = ROUNDS) -> dict[str, Constants]:
    """The same of what hosts take for requests alone; all other constants are those that are shipped, and of each side
    those of its fold."""
    kind = FITTED["servers"]
    of = {kind.shipped.stem: (known, constants()), **{n: (side(kind, known, n), own) for n, own in folds().items()}}
    return {name: request_fit(some, given, rounds) for name, (some, given) in of.items()}


def unseen(kind: Fitted, known: Sequence[Any], found: Mapping[str, Constants]) -> dict[str, Unseen]:
    """How wrong each side is by constants that did not see it."""
    import numpy as np

    told = {}
    for name, other in zip(SIDES, reversed(SIDES), strict=True):
        off = kind.off(side(kind, known, name), found[f"{kind.lead}{other}"])
        low, high = np.exp(np.quantile(-off, (0.05, 0.95)))
        wrong = np.abs(np.exp(off) - 1)
        told[name] = Unseen(len(off), float(np.median(wrong)), float(wrong.mean()), float(low), float(high))
    return told


def save(kind: Fitted, found: Mapping[str, Constants], table: Path, folder: Path) -> list[Path]:
    """Write a data file each; the constants of all systems with the intervals and judgements of the shipped ones."""
    files = [folder / f"{name}.toml" for name in found]
    systems = ("all systems", "the systems that split.toml lists", "the systems that split.toml does not list")
    for file, fitted, whose in zip(files, found.values(), systems, strict=True):
        if file.name == kind.shipped.name:
            shutil.copyfile(kind.shipped, file)
        write(fitted, f"{whose}, of {table.name}", file)
    return files


def save_experts(tables: Path, folder: Path) -> Path:
    """Write the data file of engines' kernels of experts, of a folder of tables of kernels.

    Errors: Refused for a folder that lacks one of them.
    """
    file = folder / "experts.toml"
    file.write_text(expert_tables(measured_experts(tables), f"tables of moe in {tables.name}"))
    return file
