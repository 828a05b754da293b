"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from calc.cli import completing
from calc.dtypes import CACHE_DTYPES
from calc.errors import Refused, printable
from calc.models import load_model
from calc.query import (
    CHECKPOINTING,
    KERNELS,
    LATENT_READINGS,
    PHASES,
    WINDOW_READINGS,
    common_context,
    common_length,
)
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
        return parse_tokens(value, param.opts[0] if param else "value", self.least)


class Length(Tokens):
    """A length in tokens: a whole number, or what a picture, sound or other data comes to (`calc.tokens.asking`)."""

    name = "N|tokens:…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and value.startswith("tokens:"):
            from calc.tokens.asking import parse_budget

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


chart = click.option("--chart", metavar="FILE", help="Save a chart as .png, .svg or .html; needs the extra charts.")
batch = click.option("--batch", type=Tokens(), default=1, show_default=True, help="Sequences.")
context = click.option(
    "--context",
    type=Length(0),
    help="Decode: tokens already in the cache. [default: 2048, or as many as MODEL takes before one more]",
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
    type=Length(),
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
dtype = click.option(
    "--dtype",
    default="bf16",
    show_default=True,
    metavar="FORMAT",
    help="Number format: fp32, bf16, fp16, fp8, int8, int4; or of weights alone a quantized one, such as int4:g128.",
)
state_dtype = click.option(
    "--state-dtype",
    type=click.Choice(CACHE_DTYPES),
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
latent_reading = click.option(
    "--latent-reading",
    type=click.Choice(LATENT_READINGS),
    default="expanded",
    show_default=True,
    help="Decode with latent attention: expand all cached latents again, or absorb their matrix in queries.",
)
kernels = click.option(
    "--kernels",
    type=click.Choice(KERNELS),
    default="fused",
    show_default=True,
    help="Bytes moved: each operator a kernel of its own, attention one (sdpa), runs of elementwise operators too.",
)
mtp = click.option("--mtp", is_flag=True, help="Count the modules that predict further tokens too.")

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


def seq(function: F) -> F:
    """`--seq`; the command gets it, and its --context, as long as its models take where they are not given."""

    @wraps(function)
    def with_lengths(*args: Any, **asked: Any) -> Any:
        specs = asked.get("models") or tuple(filter(None, [asked.get("model")]))
        note_own_length(specs)
        return function(*args, **(with_usual_lengths(asked, specs) if specs else asked))

    help = (
        "Tokens in each sequence, or what comes to them, as tokens:image=224x224,patch=16 does (see `tokens`). "
        "[default: 2048, or the longest that MODEL takes]"
    )
    return click.option("--seq", type=Length(), help=help)(with_lengths)  # pyright: ignore[reportReturnType]


def note_own_length(specs: Sequence[ModelSpec]) -> None:
    """Say so on stderr where --seq is given and one of `specs` reads what has a length of its own."""
    if click.get_current_context().get_parameter_source("seq") is not ParameterSource.COMMANDLINE:
        return
    for spec in specs:
        if not spec.reads_tokens and getattr(spec.embedding, "n_frames", 1) is not None:
            note(spec, "--seq changes nothing: what it reads, as pictures or sound, has a length of its own")


def with_usual_lengths(asked: dict[str, Any], specs: Sequence[ModelSpec]) -> dict[str, Any]:
    """`asked` with the lengths in it that were not given."""
    usual = {"seq": common_length(specs), "context": common_context(specs)}
    return asked | {name: length for name, length in usual.items() if name in asked and asked[name] is None}


def inputs(function: F) -> F:
    """The options of inputs that are not text: `source_seq`, `images`, `image`."""
    return source_seq(images(image(function)))


def models(function: F) -> F:
    """One or more MODEL arguments, passed on as `models: tuple[ModelSpec, ...]`, and how they are read."""
    function = tying(function)
    return click.argument(
        "models", metavar="MODEL...", nargs=-1, required=True, callback=_load_all, shell_complete=completing.models
    )(function)


def model(function: F) -> F:
    """One MODEL argument, passed on as `model: ModelSpec`, and how it is read."""
    function = tying(function)
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


def read_model(reference: str) -> ModelSpec:
    """The model that `reference` names, with its notes on stderr."""
    spec = load_model(reference, click.get_current_context().meta.get("tying", "transformers"))
    for text in spec.notes:
        note(spec, text)
    return spec


def _load_one(ctx: click.Context, param: click.Parameter, reference: str) -> ModelSpec:
    return read_model(reference)


def _load_all(ctx: click.Context, param: click.Parameter, references: tuple[str, ...]) -> tuple[ModelSpec, ...]:
    ctx.meta["references"] = references
    return tuple(read_model(reference) for reference in references)


def note(spec: ModelSpec, text: str) -> None:
    """A message about a model on stderr, on one line."""
    click.echo(printable(f"note: {spec.name}: {text}"), err=True)


def warn_beyond(spec: ModelSpec, length: int, option: str) -> None:
    """Say so on stderr where a sequence is longer than the model is made for."""
    if spec.max_seq_len is not None and length > spec.max_seq_len:
        note(spec, f"{option} {length} is past the {spec.max_seq_len} tokens it is made for")
