"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from calc.architectures.models import load_model, preset_reconstructed
from calc.cli import completing
from calc.errors import Refused
from calc.output.notes import grouped, note
from calc.reading.numbers import Number
from calc.spec import ModelSpec
from calc.spec.run import Run, common_context, common_length
from calc.units import parse_rate, parse_tokens

F = TypeVar("F", bound=Callable[..., Any])


class Tokens(click.ParamType):
    """A whole number of tokens or sequences, at least `least`."""

    name = "N"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        return parse_tokens(value, param.opts[0] if param else "value", self.least)


class Length(Tokens):
    """A length in tokens: a whole number, or what a picture, sound or other data comes to (`calc.tokens.amounts`)."""

    name = "N|tokens:…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and value.startswith("tokens:"):
            from calc.tokens.amounts import parse_budget

            return parse_budget(value, param.opts[0] if param else "value")
        return super().convert(value, param, ctx)


class Pixels(click.ParamType):
    """A picture's height and width, as in 224x224."""

    name = "HxW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        field = param.opts[0] if param else "value"
        match = re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,5})", value)
        if match is None:
            raise Refused(field, "height and width in pixels, such as 224x224", value)
        return int(match[1]), int(match[2])


class Names(click.ParamType):
    """Words with commas between them."""

    name = "NAME,NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(value.split(","))


class Counts(click.ParamType):
    """Whole numbers from `least` on with commas between them; 16x14 stands for fourteen times 16."""

    name = "N,NxTIMES"

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        counts = [re.fullmatch(r"([0-9]{1,9})(?:[x×]([0-9]{1,4}))?", count) for count in value.split(",")]
        if not all(count is not None and int(count[1]) >= self.least for count in counts):
            least = f"from {self.least} on " * (self.least > 0)
            expected = f"whole numbers {least}with commas between them, such as 15,16x14,15"
            raise Refused(param.opts[0] if param else "value", expected, value)
        return tuple(int(count[1]) for count in counts if count for _ in range(int(count[2] or 1)))


REQUESTS_A_SECOND = Number(above=0, most=1e6)


class Rate(click.ParamType):
    """Bytes a second, or bits as links are named."""

    name = "RATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return value if isinstance(value, float) else parse_rate(value, param.opts[0] if param else "value")


chart = click.option("--chart", metavar="FILE", help="Save a chart as .png, .svg or .html; needs the extra charts.")
batch = click.option("--batch", type=Tokens(), default=1, show_default=True, help="Sequences.")

# Eager and not passed on: MODEL is read while the arguments are, and needs to know.
tying = click.option(
    "--tying",
    type=click.Choice(["transformers", "checkpoint"]),
    default="transformers",
    show_default=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, param, value: ctx.meta.update(tying=value),
    help="T5 v1.1, Flan-T5, mT5, UMT5: the head is the token table, as transformers 5 has it, or a second one.",
)


def note_own_length(specs: Sequence[ModelSpec]) -> None:
    """Say so on stderr where --seq is given and one of `specs` reads what has a length of its own."""
    if click.get_current_context().get_parameter_source("seq") is not ParameterSource.COMMANDLINE:
        return
    for spec in specs:
        if spec.has_own_length:
            told = "; --frames tells another" if spec.takes_source else ""
            note(spec, f"--seq changes nothing: what it reads, as pictures or sound, has a length of its own{told}")


def note_reconstructed(specs: Sequence[ModelSpec]) -> None:
    """Say so on stderr where a preset is not all from a source."""
    references = click.get_current_context().meta["references"]
    for spec, reference in zip(specs, references, strict=True):
        if (what := preset_reconstructed(reference)) is not None:
            note(spec, f"partly reconstructed ({what}), confirmed by the published, rounded count alone")


def with_usual_lengths(given: dict[str, Any], specs: Sequence[ModelSpec]) -> dict[str, Any]:
    """`given` with the lengths in it that were not given."""
    usual = {"seq": common_length(specs), "context": common_context(specs)}
    return given | {name: length for name, length in usual.items() if name in given and given[name] is None}


traced = click.option(
    "--traced",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, param, value: ctx.meta.update(traced=value),
    help="Count what PyTorch runs for transformers' own class of MODEL; needs the extra trace.",
)
run_code = click.option(
    "--run-code",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, param, value: ctx.meta.update(run_code=value),
    help="With --traced, run the Python file that MODEL names, as in file.py:build.",
)


def models(function: F) -> F:
    """One or more MODEL arguments, passed on as `models: tuple[ModelSpec, ...]`, and how they are read."""
    function = tying(traced(run_code(function)))
    return click.argument(
        "models", metavar="MODEL...", nargs=-1, required=True, callback=_load_all, shell_complete=completing.models
    )(function)


def model(function: F) -> F:
    """One MODEL argument, passed on as `model: ModelSpec`, and how it is read."""
    function = tying(traced(run_code(function)))
    return click.argument("model", metavar="MODEL", callback=_load_one, shell_complete=completing.models)(function)


def output(function: F) -> F:
    """`--format` and `--json`, passed on as `fmt`."""
    function = click.option("--json", "fmt", flag_value="json", help="Short for --format json: one object a line.")(
        function
    )
    return click.option(
        "--format",
        "fmt",
        type=click.Choice(["table", "json", "csv", "markdown"]),
        default="table",
        show_default=True,
        help="How results are printed.",
    )(function)


def working(function: F) -> F:
    """`--workers`, `--ray` and `--keep`, passed on as `workers: Workers`."""

    @click.option("--workers", type=Tokens(), default=1, show_default=True, help="Processes of this machine that work.")
    @click.option("--ray", metavar="ADDRESS", help="A Ray cluster that works instead: its head's address, or auto.")
    @click.option("--keep", type=click.Path(path_type=Path), help="Folder of finished chunks; a restart goes on there.")
    @wraps(function)
    def with_workers(workers: int, ray: str | None, keep: Path | None, **rest: Any) -> Any:
        from calc.workers.workers import Workers  # few commands share out their work

        return function(workers=Workers(workers, ray, keep), **rest)

    return with_workers  # pyright: ignore[reportReturnType]


def read_model(reference: str) -> ModelSpec:
    """The model that `reference` names, with its notes on stderr."""
    meta = click.get_current_context().meta
    if meta.get("traced") or meta.get("run_code"):
        spec = _captured(reference, meta)
    else:
        spec = load_model(reference, meta.get("tying", "transformers"))
    for text in grouped(spec.notes):
        note(spec, text)
    return spec


def of_cluster(run: Run, gpu: str | None) -> str | None:
    """The device that was said, or the cluster's. Errors: Refused for another than a cluster is made of."""
    if run.cluster is None:
        return gpu
    from calc.spec.catalogue import load_device

    if gpu is not None and load_device(gpu) != load_device(run.cluster.gpu):
        raise Refused("--gpu", f"{run.cluster.gpu}, which {run.cluster.name} is made of, or no --cluster", gpu)
    return run.cluster.gpu


def reference_of(spec: ModelSpec) -> str:
    """What the command line called a model that it read."""
    return click.get_current_context().meta.get("reference", spec.name)


def read_as() -> tuple[str, ...]:
    """The options that say how the command line read its model, where that is not as usual: another command reads the
    same model with them alone."""
    meta = click.get_current_context().meta
    tying = meta.get("tying", "transformers")
    flags = tuple(flag for flag in ("--traced", "--run-code") if meta.get(flag[2:].replace("-", "_")))
    return (() if tying == "transformers" else ("--tying", tying)) + flags


def _captured(reference: str, meta: dict[str, Any]) -> ModelSpec:
    """What PyTorch runs for the model that `reference` names."""
    if not meta.get("traced"):
        raise Refused("--run-code", "--traced beside it", "--run-code alone")
    if meta.get("tying", "transformers") != "transformers":
        raise Refused("--tying", "transformers where its own class is traced", meta["tying"])
    from calc.tracing.loading import load_traced  # torch and transformers are long to load

    return load_traced(reference, run_code=bool(meta.get("run_code")))


def _load_one(ctx: click.Context, param: click.Parameter, reference: str) -> ModelSpec:
    ctx.meta["reference"] = reference
    return read_model(reference)


def _load_all(ctx: click.Context, param: click.Parameter, references: tuple[str, ...]) -> tuple[ModelSpec, ...]:
    ctx.meta["references"] = references
    return tuple(read_model(reference) for reference in references)
