"""Options that describe a run: derived from the fields of `calc.spec.run.Run`, so that a word is the same everywhere.

A command names the fields that it takes; their names, help, values and the groups of `--help` come from the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from calc.cli.options import (
    Counts,
    Length,
    Names,
    Pixels,
    Rate,
    Tokens,
    note_own_length,
    with_usual_lengths,
)
from calc.output.notes import remark
from calc.reading.numbers import Number
from calc.spec import ModelSpec
from calc.spec.run import NODES, Run
from calc.spec.run.node import Flag, Sized, Word, Words

F = TypeVar("F", bound=Callable[..., Any])

SPELLED = {"mode": ("--mode", "--phase"), "frozen": ("--frozen-dtype",), "source_seq": ("--source-seq", "--frames")}
"""Field -> its options, where they are not its own name."""
DEFAULTS = {
    "seq": "2048, or the longest that MODEL takes",
    "context": "2048, or as many as MODEL takes before one more",
    "source_seq": "what the encoder is made for, or --seq",
    "image": "the model's own",
    "document": "the whole sequence",
    "gradient_dtype": "the recipe's",
    "fp8_recipe": "delayed, or the stack's",
    "cache_dtype": "that of activations",
    "optimizer": "adamw, adamw-bf16 where weights are in bf16 alone",
    "frozen": "the recipe's",
    "recompute": "none",
    "fused_loss": "with --execution compiled",
    "offload_layers": "all but the last",
    "expert_tp": "those of --tp",
    "sequence_parallel": "with --tp",
    "micro_batches": "as many as fill the pipeline; one without",
    "stages": "as even as can be",
    "shard": "all that hold the same weights",
    "cluster": "nodes of eight on --network",
    "stack": "PyTorch alone",
    "graphs": "as the stack has it",
    "execution": "sdpa",
    "engine": "none",
    "latent_reading": "absorbed; expanded where FLOPs are counted by a --convention",
    "batched_tokens": "all, or the engine's",
}
"""Field -> what is taken where it is not said, where the field itself is left open."""
TYPES: Mapping[str, click.ParamType] = {
    "seq": Length(),
    "context": Length(0),
    "source_seq": Length(),
    "document": Length(),
    "image": Pixels(),
    "stages": Counts(),
    "zero": Tokens(0),
    "network": Rate(),
    "cluster": click.STRING,
    "stack": click.STRING,
    "dropout": Number(),
    "offload_fraction": Number(),
}
METAVARS = {
    "cluster": "NAME",
    "stack": "NAME",
    "routing": "HOW",
    "dtype": "FORMAT",
    "frozen": "FORMAT",
    "dropout": "P",
    "offload_fraction": "F",
}
MOST_WORDS = 66
"""Letters of an option's words on the line that names it; more stand in its text, which is broken."""
OLD_WORDS = {"execution": {"fused": "compiled"}}
"""Field -> words that stood for others once -> what they are called."""
OLD_OPTIONS = {"--kernels": "execution", "--dtype": "cache_dtype"}
"""Options that stood for a field once; a command says which of them it still takes."""


class OneOf(click.Choice):
    """One of some words, or an old name of one, of which a note says the new."""

    def __init__(self, words: Sequence[str], old: Mapping[str, str]) -> None:
        super().__init__(words)
        self.old = old

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.old and self.old[value] in self.choices:
            option = param.opts[0] if param else "value"
            new = flags_of(OLD_OPTIONS[option])[0] if option in OLD_OPTIONS else option
            remark(f"{option} {value} is called {new} {self.old[value]} now")
            value = self.old[value]
        return super().convert(value, param, ctx)


class GroupedCommand(click.Command):
    """A command whose `--help` shows options of a run by the node that they describe."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                groups.setdefault(group_of(param.name or ""), []).append(record)
        for name in (*(node.__name__ for node in NODES), "Options"):
            if name in groups:
                with formatter.section(name):
                    formatter.write_dl(groups[name])


def group_of(name: str) -> str:
    """The node whose field is called `name`; `Options` where none has it."""
    return next((node.__name__ for node in NODES if name in node.__annotations__), "Options")


def of_run(
    *names: str,
    words: Mapping[str, Sequence[str]] | None = None,
    defaults: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
    old: Sequence[str] = (),
    own_length: Callable[[Sequence[ModelSpec]], None] = note_own_length,
) -> Callable[[F], F]:
    """The options of the fields called `names`; the command gets those that were given, as `words`.

    words: values of a field that the command takes, where they are not all. defaults, texts: what the command takes
    where nothing is said, and help, where they differ from the field's. old: of OLD_OPTIONS.
    own_length: what is said of --seq where models read what has a length of its own.
    Lengths that were not given are the usual ones of the command's models.
    """
    words, defaults, texts = words or {}, defaults or {}, texts or {}

    def decorate(function: F) -> F:
        @wraps(function)
        def with_words(*args: Any, **others: Any) -> Any:
            given = {name: others.pop(name) for name in names}
            given |= _given_as_before({option: others.pop(_hidden(option)) for option in old})
            specs = others.get("models") or tuple(filter(None, [others.get("model")]))
            if "seq" in names:
                own_length(specs)
                given = with_usual_lengths(given, specs) if specs else given
            words = {name: value for name, value in given.items() if value is not None}
            return function(*args, words=words, **others)

        made: Any = with_words
        for option in reversed(old):
            field = OLD_OPTIONS[option]
            made = click.option(option, _hidden(option), type=_type(field, words), hidden=True)(made)
        for name in reversed(names):
            made = _option(name, words, defaults, texts)(made)
        return made

    return decorate


def _given_as_before(words: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that were given by an old option, and a note that says the new one."""
    found = {}
    for option, value in words.items():
        if value is not None:
            field = OLD_OPTIONS[option]
            remark(f"{option} is called {flags_of(field)[0]} now")
            found[field] = value
    return found


def _hidden(option: str) -> str:
    return f"old_{option.strip('-')}"


def flags_of(name: str) -> tuple[str, ...]:
    """The options that give the field called `name`, the first of them its usual one."""
    return SPELLED.get(name, (f"--{name.replace('_', '-')}",))


def _reader(name: str) -> Any:
    metadata = Run.model_fields[name].metadata
    return metadata[0].func if metadata else None


def _type(name: str, words: Mapping[str, Sequence[str]]) -> click.ParamType | None:
    """How the command line reads a field."""
    reader = _reader(name)
    if name in TYPES:
        return TYPES[name]
    if isinstance(reader, Sized):
        return Tokens(reader.least)
    if isinstance(reader, Word) or name in words:
        return OneOf(tuple(words.get(name, ())) or tuple(reader.known()), OLD_WORDS.get(name, {}))
    return Names() if isinstance(reader, Words) else None


def _option(
    name: str, words: Mapping[str, Sequence[str]], defaults: Mapping[str, str], texts: Mapping[str, str]
) -> Callable[[F], F]:
    field, reader = Run.model_fields[name], _reader(name)
    shown = defaults.get(name) or DEFAULTS.get(name) or str(field.default)
    flags, kind = flags_of(name), _type(name, words)
    if isinstance(reader, Flag):
        pair = (f"{flags[0]}/--no-{flags[0].removeprefix('--')}",) if reader.open else flags
        flags, kind = pair, None
    known: dict[str, Any] = {"default": None, "help": texts.get(name) or field.description}
    metavar = METAVARS.get(name)
    if isinstance(kind, OneOf) and metavar is None and len("|".join(kind.choices)) > MOST_WORDS:
        metavar = flags[0].removeprefix("--").upper()
        known["help"] = f"{known['help'].removesuffix('.')}: {', '.join(kind.choices)}."
    if isinstance(reader, Flag) and not reader.open:
        known["is_flag"] = True
    elif shown != "None":
        known["help"] += f"  [default: {shown}]"
    return click.option(*flags, name, type=kind, metavar=metavar, **known)


def given(name: str) -> bool:
    """Whether the field called `name` was said on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
