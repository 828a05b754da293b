"""`plan --from FILE`: a launch file says what the command line leaves open; what both say is the command line's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calc.cli.plan_words import fixed, recipes
from calc.cli.plan_words import sequences as sequences_said
from calc.cli.run_options import flags_of
from calc.cli.run_options import given as said
from calc.errors import Refused
from calc.output.notes import remark
from calc.plan.existing import OF_ALL
from calc.plan.export.launch import LONGEST, Read, Tool
from calc.plan.export.settings import meant
from calc.reading.files import read_text
from calc.spec import ModelSpec


def read_launch(tool: Tool, source: str) -> Read:
    """The launch file of a tool, with a note on settings that are not read. Errors: Refused where there is none."""
    path = Path(source)
    if not path.is_file():
        raise Refused("--from", f"a launch file of {tool.name}", source[:80])
    read = tool.read(read_text(path, LONGEST), path.name)
    if read.unread:
        unread = ", ".join(meant(name, tool.known) for name in read.unread)
        remark(f"not read, as no setting of that name is known to make a plan: {unread}")
    return read


def with_file(spec: ModelSpec, given: Mapping[str, Any], read: Read) -> dict[str, Any]:
    """What is said on the command line, with a file's GPUs, length and batch where it leaves them open, and notes where
    both say them and differ. Errors: Refused for GPUs and a batch that neither says, and for the file of another
    model."""
    for what, own, in_file in (("layers", spec.n_layers, read.n_layers), ("wide", spec.d_model, read.width)):
        if in_file not in (None, own):
            raise Refused("--from", f"a file that trains {spec.name}, {own:,} {what}", f"{in_file:,}")
    words = dict(given["words"])
    length = read.words.get("seq")
    if said("seq"):
        _differ("--seq", words["seq"], length)
    elif length is not None:
        words["seq"] = length
    gpus: tuple[int, ...] | None = given["gpus"] or ((read.gpus,) if read.gpus else None)
    if gpus is None:
        raise Refused("--gpus", "how many, as the file does not say", "none")
    _differ("--gpus", gpus[0], read.gpus)
    in_file = read.each * gpus[0] if read.sequences is None and read.each is not None else read.sequences
    batch: str | None = given["global_batch"] or (f"{in_file}seq" if in_file else None)
    if batch is None:
        raise Refused("--global-batch", "tokens of a step, or its sequences, as the file does not say", "none")
    if words["seq"] is not None:
        _differ("--global-batch", sequences_said(batch, int(words["seq"]))[0], in_file, "sequences")
    for recipe in recipes(given["dtype"]):
        _differ("--dtype", recipe, read.words.get("recipe"))
    for name in OF_ALL:
        if said(name):
            _differ(flags_of(name)[0], words[name], read.words.get(name))
    for name, value in fixed(given["fix"]).items():
        _differ(f"--fix {name}", value, read.words.get(name))
    return {**given, "words": words, "gpus": gpus, "global_batch": batch}


def _differ(option: str, value: Any, in_file: Any, unit: str = "") -> None:
    """A note where a file says something else than an option."""
    if in_file is not None and value != in_file:
        remark(" ".join(f"{option} asks for {value} {unit}".split()) + f", not the {in_file} of the file")


def unsaid(read: Read, given: Mapping[str, Any]) -> Read:
    """What a file says of a plan, without what the command line says in its place."""
    words = {name: value for name, value in read.words.items() if name != "seq"}
    if given["dtype"] is not None:
        words.pop("recipe", None)
    for name in OF_ALL:
        if said(name):
            words.pop(name, None)
    if given["global_batch"] is not None:
        words.pop("micro_batches", None)  # which follow from the batch
    return read._replace(words=words, gpus=None, sequences=None, each=None)
