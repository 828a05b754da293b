"""What shipped profiles were fitted to, held against them again, and the tables of docs/prediction-measured.md of it.

`python -m tests.time.profile_tables` writes them into the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.spec.catalogue import load_device
from calc.spec.hardware import Device
from calc.time.device.profile import STACKS, Profile, shipped_profile
from calc.time.device.relatives import moved, weights, wider
from calc.time.device.speed_of import on_stack
from calc.time.models.blend import blended
from harness.importing.collectives import holds_collectives
from harness.importing.exchanges import exchange_rows, holds_exchanges
from harness.importing.fitting import FEWEST, Rows, Wanted, rows_of
from harness.importing.kinds import parts_of
from harness.importing.reading import read_table
from harness.importing.tables import of_framework
from tests.reference import ROOT, folder
from tests.time.elsewhere import table_elsewhere

DOCUMENT = ROOT / "docs" / "prediction-measured.md"
SYSTEMS = {
    "a100-sxm-80gb": "a100_sxm",
    "h100-sxm": "h100_sxm",
    "h200": "h200_sxm",
    "b200": "b200_sxm",
    "gb200": "gb200",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}
"""Devices of the catalogue -> folders of measured tables."""
HEADS = ("A100", "H100", "H200", "B200", "GB200", "L40S", "RTX PRO 6000")
TWINS = ({"h100-sxm", "h200"}, {"b200", "gb200"})
"""Left out together: what was measured on one says nearly all of the other."""
MOST_ROWS = 200
"""Of one model, on which a relative is tried: evenly chosen ones."""
LIBRARIES = ("nccl.csv.gz", "wideep_deepep_ll.csv.gz", "wideep_deepep_normal.csv.gz")
"""Tables of what runs under every stack alike: they are in the first stack's profile."""
EVERY_SHAPE = ("h100-sxm", "bf16")
"""Whose every shape somebody could have seen: its rows are fitted to, and count nowhere as predicted."""


class Cell(NamedTuple):
    """Held-out errors of some models: rows, mean error, share of times within the 90 % interval."""

    rows: int
    mape: float
    inside: float


def tables(system: str, stack: str) -> list[Path]:
    """The tables that a stack's profile of a system is made of, as the documented command chooses them."""
    every = sorted((folder() / "measured" / "kernels" / "tables" / SYSTEMS[system]).glob("*.csv.gz"))
    some = [path for path in every if stack == STACKS[0] or path.name not in LIBRARIES]
    return of_framework(some, stack, lambda line: None)


def every_rows(system: str, stack: str, device: Device) -> Iterator[tuple[str, Rows]]:
    """(field, rows) of each model that is fitted to a hash's share of shapes; collectives are cross-validated."""
    for path in tables(system, stack):
        head = read_table(path, rows=1)
        if holds_collectives(head):
            continue
        if holds_exchanges(head):
            found = exchange_rows(read_table(path), device, str(path))
            yield from (("exchange", rows) for rows in found if len(rows.seconds) >= FEWEST)
            continue
        for kind, frame in parts_of(read_table(path), str(path)):
            try:
                yield from ((kind.field, rows) for rows in rows_of(kind, frame, device, Wanted(stack), str(path)))
            except Refused:  # one of two kinds in a table, of another framework
                continue


@cache
def profile(system: str, stack: str) -> Profile:
    """A shipped profile."""
    found = shipped_profile(system, stack)
    assert found is not None
    return found


def named(field: str, name: str) -> tuple[str, str]:
    """What a document calls a model: its kind, and its format with that of the cache."""
    dtype, *rest = name.partition("@")[0].split(".")
    kind = {"decode": "attention of a token", "attention": "attention of a prompt", "gemm": "products"}.get(
        field, field
    )
    kind = kind.replace("_", " ")
    if field in ("exchange", "collectives"):
        return kind, dtype.replace("_", " ")
    if "latent" in rest:
        kind = "products of latent attention" if field == "gemm" else kind.replace("attention", "latent attention")
    return kind, dtype + (", fp8 cache" if "fp8_cache" in rest else "")


def cells() -> dict[tuple[str, str, str], dict[str, Cell]]:
    """(kind, format, stack) -> device -> its held-out error, by the profiles' own word."""
    found: dict[tuple[str, str, str], dict[str, list[Any]]] = {}
    for system in SYSTEMS:
        for stack in STACKS:
            for name, fit in profile(system, stack).fits.items():
                field, _, key = name.partition(".")
                if (system, key.partition(".")[0]) == EVERY_SHAPE and field not in ("exchange", "collectives"):
                    continue
                found.setdefault((*named(field, key), stack), {}).setdefault(system, []).append(fit)
    return {key: {system: _cell(fits) for system, fits in row.items()} for key, row in found.items()}


def _cell(fits: list[Any]) -> Cell:
    rows = sum(fit.held_out for fit in fits)
    inside = [(fit.inside, fit.held_out) for fit in fits if fit.inside is not None]
    share = sum(each * n for each, n in inside) / max(sum(n for _, n in inside), 1)
    return Cell(rows, sum(fit.mape * fit.held_out for fit in fits) / rows, share)


def table_of_kinds() -> str:
    """Every kind's held-out rows, error and coverage."""
    kinds: dict[str, list[Cell]] = {}
    for (kind, _, _), row in sorted(cells().items()):
        kinds.setdefault(kind, []).extend(row.values())
    lines = [
        "| kind | models | rows held out | mean error | median of models | in the 90 % interval |",
        "|---|---|---|---|---|---|",
    ]
    for kind, own in kinds.items():
        rows = sum(cell.rows for cell in own)
        mean = sum(cell.mape * cell.rows for cell in own) / rows
        inside = sum(cell.inside * cell.rows for cell in own) / rows
        middle = median(cell.mape for cell in own)
        lines.append(
            f"| {kind} | {len(own)} | {rows:,} | {mean:.1%} | {middle:.1%} | {inside:.0%} |".replace("%", " %")
        )
    return "\n".join(lines)


def table_of_formats() -> str:
    """The held-out mean error of each kind, format and stack, in %, by device."""
    lines = [f"| kind | format | stack | {' | '.join(HEADS)} |", "|---" * (3 + len(HEADS)) + "|"]
    for (kind, dtype, stack), row in sorted(cells().items()):
        numbers = [f"{100 * row[system].mape:.1f}" if system in row else "" for system in SYSTEMS]
        lines.append(f"| {kind} | {dtype} | {stack} | {' | '.join(numbers)} |")
    return "\n".join(lines)


RELATED = {
    "gemm": "products",
    "attention": "attention of a prompt",
    "decode": "attention of a token",
    "experts": "experts",
}


class Moved(NamedTuple):
    """A model of other devices on the rows of one: its format, its mean error, and the share of times within its
    interval."""

    name: str
    mape: float
    inside: float


def table_of_relatives() -> str:
    """The mean error, in %, on every device of models moved from other ones, its twin left out, and from its twin, over
    the formats and stacks that both have; and how many models that is, and how often the interval held."""
    lines = [
        f"| kind | from | models | {' | '.join(HEADS)} | median | in the 90 % interval |",
        "|---" * (5 + len(HEADS)) + "|",
    ]
    found = {system: _relatives(system) for system in SYSTEMS}
    for twin, words in ((False, "others, no twin"), (True, "twin")):
        for field, kind in RELATED.items():
            own = {system: found[system][field, twin] for system in SYSTEMS if (field, twin) in found[system]}
            errors = {system: sum(one.mape for one in each) / len(each) for system, each in own.items()}
            numbers = " | ".join(f"{100 * errors[system]:.0f}" if system in errors else "" for system in SYSTEMS)
            every = [one for each in own.values() for one in each]
            inside = 100 * sum(one.inside for one in every) / len(every)
            middle = 100 * median(errors.values())
            lines.append(f"| {kind} | {words} | {len(every)} | {numbers} | {middle:.0f} | {inside:.0f} % |")
    return "\n".join(lines)


def table_of_related_products() -> str:
    """The same mean errors of products alone, without twins, by format."""
    found = {system: _relatives(system).get(("gemm", False), []) for system in SYSTEMS}
    names = sorted({one.name for own in found.values() for one in own})
    lines = [f"| products in | models | {' | '.join(HEADS)} | median |", "|---" * (3 + len(HEADS)) + "|"]
    for name in names:
        own = {system: [one.mape for one in each if one.name == name] for system, each in found.items()}
        errors = {system: 100 * sum(each) / len(each) for system, each in own.items() if each}
        numbers = " | ".join(f"{errors[system]:.0f}" if system in errors else "" for system in SYSTEMS)
        models, middle = sum(map(len, own.values())), median(errors.values())
        lines.append(f"| {name.replace('_', ' ')} | {models} | {numbers} | {middle:.0f} |")
    return "\n".join(lines)


@cache
def _relatives(system: str) -> dict[tuple[str, bool], list[Moved]]:
    """(field, whether it is the twin that stands in) -> how far off moved models are, of each that `predict` takes on
    the device itself: not of one whose measured start is the host's."""
    device, found = load_device(system), {}
    for stack in STACKS:
        for field, rows in every_rows(system, stack, device):
            if field not in RELATED or "@" in rows.name or "latent" in rows.name:
                continue
            taken = getattr(on_stack(system, stack), field)[rows.name]
            if taken != getattr(profile(system, stack), field)[rows.name]:
                continue
            every = -(-len(rows.seconds) // MOST_ROWS)
            shape = {name: column[::every] for name, column in rows.shape.items()}
            for twin in (False, True):
                if (other := _from_others(device, field, rows.name, stack, twin)) is not None:
                    found.setdefault((field, twin), []).append(
                        _held_against(rows.name, *other, shape, rows.seconds[::every])
                    )
    return found


def _held_against(name: str, model: Any, power: float, shape: dict[str, Any], seconds: Any) -> Moved:
    import numpy as np

    ratio = seconds / model.predicted(shape)
    low, high = (end**power for end in model.interval(0.9))
    return Moved(name, float(np.abs(1 / ratio - 1).mean()), float(((ratio >= low) & (ratio <= high)).mean()))


def _from_others(device: Device, field: str, name: str, stack: str, twin: bool) -> tuple[Any, float] | None:
    """The model of those other devices that have one, moved here, as `predict` does with relatives, and the exponent of
    its interval; None where none has. twin: from that alone."""
    others = [
        load_device(other) for other in SYSTEMS if other != device.name and ({device.name, other} in TWINS) == twin
    ]
    known = [other for other in others if name in getattr(on_stack(other.name, stack), field)]
    counted = weights(device, known)
    if not counted:
        return None
    models = [
        moved(getattr(on_stack(other, stack), field)[name], name, load_device(other), device) for other in counted
    ]
    return blended(models, list(counted.values())), wider(load_device(next(iter(counted))), device)


SECTIONS = {
    "kinds": table_of_kinds,
    "formats": table_of_formats,
    "relatives": table_of_relatives,
    "related products": table_of_related_products,
    "elsewhere": table_elsewhere,
}
"""What stands in the document between `<!-- NAME -->` and `<!-- end of NAME -->`."""


def documented(section: str) -> str:
    """A table as the document has it."""
    text = DOCUMENT.read_text()
    return text.partition(f"<!-- {section} -->\n")[2].partition(f"\n<!-- end of {section} -->")[0].strip()


def write(sections: Mapping[str, Callable[[], str]]) -> None:
    """Write the tables into the document."""
    text = DOCUMENT.read_text()
    for section, made in sections.items():
        head, tail = f"<!-- {section} -->\n", f"\n<!-- end of {section} -->"
        before, found, rest = text.partition(head)
        assert found, section
        assert tail in rest, section
        text = f"{before}{head}\n{made()}\n{tail}{rest.partition(tail)[2]}"
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    write(SECTIONS)
