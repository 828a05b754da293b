"""`verify`: what `calc` predicts of a model beside what a real implementation of it holds and executes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from calc import Load, kv_cache, load_model, parameter_shapes, parameters
from calc.architectures.models import PRESETS
from calc.errors import Refused
from calc.output.notes import warn_beyond
from calc.output.tables import Table, emit
from calc.quantities.flops import forward, training
from calc.reading.files import parse_json, parse_toml, read_text
from calc.spec import Embedding, ModelSpec, Patches, ResNet
from harness import oracles, transformers_oracle


@click.command(short_help="Compare predictions with a model that really runs.")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option("--batch", type=click.IntRange(1, 1024), default=2, show_default=True, help="Sequences.")
@click.option("--seq", type=click.IntRange(1, 2**20), default=64, show_default=True, help="Tokens in each sequence.")
@click.option(
    "--oracle",
    type=click.Choice(["reference", "transformers"]),
    default="reference",
    show_default=True,
    help="Whose model runs: ours, or that of the installed transformers (from a config.json).",
)
@click.option("--mtp", is_flag=True, help="With the modules that predict further tokens (reference models only).")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a model and line.")
def verify(models: tuple[str, ...], batch: int, seq: int, oracle: str, mtp: bool, fmt: str) -> int:
    """Build each MODEL on the meta device, run it, and compare to the integer; no weights and no memory are needed.

    Parameters, FLOPs under convention torch (forward, training under every checkpointing, one decoded token) and bytes
    of the cache in bf16. Beside a text, our models read one picture. Exit status: 0 equal, 1 a difference, 2 refused.
    """
    records = []
    for reference in models:
        spec = load_model(reference)
        if mtp and (spec.mtp is None or oracle != "reference"):
            found = spec.name if spec.mtp is None else f"--oracle {oracle}"
            raise Refused(
                "--mtp", "a model described with modules that predict further tokens, and our own as oracle", found
            )
        _check_length(spec, seq)
        # What is made for sound of one length hears that much, whatever --seq says.
        length = getattr(spec.embedding, "n_frames", None) or seq
        if oracle == "reference":
            counted = oracles.reference(spec, batch, length, mtp)
        else:
            counted = transformers_oracle.transformers(config_of(reference), batch, length, picture_of(spec))
        # Of the models that read pictures beside a text, transformers' see one only where nothing goes without (CLIP).
        images = int(oracles.sees(spec) and (oracle == "reference" or spec.contrast is not None))
        records.append(_record(spec, oracle, _rows(predictions(spec, batch, seq, images, mtp), counted, spec, mtp)))
    emit(records, [_table(record) for record in records], fmt)
    return 0 if all(record["agrees"] for record in records) else 1


def _check_length(spec: ModelSpec, seq: int) -> None:
    """On the meta device no lookup fails, so a learned table's end is looked for here; past other lengths there is only
    a warning. Errors: Refused for `seq` tokens and one more past such a table."""
    decodes = any(group.mixer is not None and getattr(group.mixer, "causal", True) for group in spec.layers)
    for stack in spec.stacks:
        front, one_more = stack.embedding, int(decodes and stack is spec)
        if not isinstance(front, Embedding) or front.n_positions is None:
            continue
        most = int(front.n_positions) - front.position_offset - one_more
        if seq > most:
            why = "the rows of its table of positions" + (", one of them for the decoded token" if one_more else "")
            raise Refused("--seq", f"at most {most} for {spec.name} ({why})", seq)
    warn_beyond(spec, seq + decodes, "--seq + 1 =" if decodes else "--seq")


def predictions(spec: ModelSpec, batch: int, seq: int, images: int = 0, mtp: bool = False) -> dict[str, int]:
    """What `calc` says of every quantity that an oracle may count."""
    load = Load(batch=batch, seq=seq, usual_source=seq, images=images, mtp=mtp)
    found = {"params": sum(parameters(spec, mtp=mtp).values()), "flops.forward": forward(spec, load).total}
    found |= {f"flops.training, {mode}": training(spec, load, mode).total for mode in oracles.MODES}
    decode = Load(batch=batch, seq=1, context=seq, decode=True, usual_source=seq)
    # The cache is filled from an encoder's input of `seq`, which a static cache of seq + 1 tokens does not change.
    source = getattr(spec.encoder.embedding, "n_frames", None) or seq if spec.encoder else None
    return found | {
        "flops.decode": forward(spec, decode).total,
        "kv_cache, growing": kv_cache(spec, batch, seq, "bf16", "cache", source=source).total_bytes,
        "kv_cache, static": kv_cache(spec, batch, seq + 1, "bf16", "tokens", source=source).total_bytes,
    }


def picture_of(spec: ModelSpec) -> tuple[int, int] | None:
    """Height and width of the pictures that a model is made for, None where it sees none."""
    fronts = [stack.embedding for stack in spec.stacks]
    return next(((int(each.height), int(each.width)) for each in fronts if isinstance(each, Patches | ResNet)), None)


def config_of(reference: str) -> dict[str, Any]:
    """The config.json that a path or a preset stands for. Errors: Refused where it stands for none."""
    preset = PRESETS / f"{reference.lower()}.toml"
    table = parse_toml(read_text(preset), reference) if preset.is_file() else None
    if table is None and reference.endswith(".json"):
        return parse_json(read_text(Path(reference)), reference)
    if table is None or "config" not in table:
        raise Refused("MODEL", "a config.json, or a preset that holds one, for --oracle transformers", reference)
    return table["config"]


def _rows(predicted: Mapping[str, int], counted: oracles.Counted, spec: ModelSpec, mtp: bool) -> list[dict[str, Any]]:
    rows = [_row(name, predicted[name], value) for name, value in counted.quantities.items()]
    if counted.shapes is not None:
        ours, theirs = parameter_shapes(spec, mtp=mtp).items(), counted.shapes.items()
        shared = len(ours & theirs)
        row = _row("tensors of equal path and shape", len(ours), shared)
        rows.insert(1, row | {"difference": max(len(ours), len(theirs)) - shared})
    return rows


def _row(quantity: str, predicted: int, counted: int) -> dict[str, Any]:
    return {"quantity": quantity, "predicted": predicted, "counted": counted, "difference": counted - predicted}


def _record(spec: ModelSpec, oracle: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    agrees = not any(row["difference"] for row in rows)
    return {"model": spec.name, "oracle": oracle, "agrees": agrees, "rows": rows}


def _table(record: dict[str, Any]) -> Table:
    columns = ("quantity", "predicted", "counted", "difference")
    rows = [(row["quantity"], *(f"{row[name]:,}" for name in columns[1:])) for row in record["rows"]]
    verdict = "equal to the integer" if record["agrees"] else "NOT equal"
    return Table(columns, rows, f"{record['model']} against {record['oracle']}", verdict)
