"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from calc.dtypes import BY_NAME as DTYPES
from calc.errors import Refused
from calc.models import load_model
from calc.query import CHECKPOINTING, PHASES, WINDOW_READINGS
from calc.spec import ModelSpec
from calc.units import parse_tokens

F = TypeVar("F", bound=Callable[..., Any])


class Tokens(click.ParamType):
    """A whole number of tokens or sequences, at least `least`."""

    name = "N"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        field = param.opts[0] if param else "value"
        number = parse_tokens(value, field)
        if not self.least <= number <= 2**40:
            raise Refused(field, f"a whole number from {self.least} to 2^40", value)
        return number


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


seq = click.option("--seq", type=Tokens(), default=2048, show_default=True, help="Tokens in each sequence.")
batch = click.option("--batch", type=Tokens(), default=1, show_default=True, help="Sequences.")
context = click.option(
    "--context", type=Tokens(0), default=2048, show_default=True, help="Decode: tokens already in the cache."
)
phase = click.option("--phase", type=click.Choice(PHASES), default="forward", show_default=True, help="What is run.")
checkpointing = click.option(
    "--checkpointing",
    type=click.Choice(CHECKPOINTING),
    default="none",
    show_default=True,
    help="Training: which activations are recomputed.",
)
convention = click.option(
    "--convention", default="torch", show_default=True, help="How FLOPs are counted; `conventions` lists them."
)
source_seq = click.option(
    "--source-seq",
    "--frames",
    type=Tokens(),
    help="Encoder-decoders: length of the encoder's input, tokens or frames of audio. "
    "[default: what the encoder is made for, or --seq]",
)
images = click.option(
    "--images",
    type=Tokens(0),
    default=0,
    show_default=True,
    help="Language models with a vision tower: pictures a batch.",
)
image = click.option("--image", type=Pixels(), help="Height and width of a picture. [default: the model's own]")
state_dtype = click.option(
    "--state-dtype",
    type=click.Choice(list(DTYPES)),
    default="fp32",
    show_default=True,
    help="Format of recurrent state.",
)
window_reading = click.option(
    "--window-reading",
    type=click.Choice(WINDOW_READINGS),
    default="tokens",
    show_default=True,
    help="A sliding window of W holds W tokens, or W - 1 as a growing cache keeps after prefill.",
)


def inputs(function: F) -> F:
    """The options of inputs that are not text: `source_seq`, `images`, `image`."""
    return source_seq(images(image(function)))


def models(function: F) -> F:
    """One or more MODEL arguments, passed on as `models: tuple[ModelSpec, ...]`."""
    return click.argument("models", metavar="MODEL...", nargs=-1, required=True, callback=_load_all)(function)


def model(function: F) -> F:
    """One MODEL argument, passed on as `model: ModelSpec`."""
    return click.argument("model", metavar="MODEL", callback=_load_one)(function)


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


def read_model(reference: str) -> ModelSpec:
    """The model that `reference` names, with its notes on stderr."""
    spec = load_model(reference)
    for note in spec.notes:
        click.echo(f"note: {spec.name}: {note}", err=True)
    return spec


def _load_one(ctx: click.Context, param: click.Parameter, reference: str) -> ModelSpec:
    return read_model(reference)


def _load_all(ctx: click.Context, param: click.Parameter, references: tuple[str, ...]) -> tuple[ModelSpec, ...]:
    return tuple(read_model(reference) for reference in references)


def warn_beyond(spec: ModelSpec, length: int, option: str) -> None:
    """Say so on stderr where a sequence is longer than the model is made for."""
    if spec.max_seq_len is not None and length > spec.max_seq_len:
        click.echo(
            f"note: {spec.name}: {option} {length} is past the {spec.max_seq_len} tokens it is made for", err=True
        )
