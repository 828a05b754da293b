"""Options that say how a model is trained or served, for the commands that speak of memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from calc.cli.options import Tokens
from calc.dtypes import CACHE_DTYPES
from calc.errors import Refused
from calc.memory.engines import ENGINES
from calc.memory.plan import EXECUTIONS, MODES, REGIONS, Plan
from calc.memory.precision import OPTIMIZERS, RECIPES

F = TypeVar("F", bound=Callable[..., Any])

OF_TRAINING = {
    "recipe",
    "optimizer",
    "dropout",
    "device",
    "fused_loss",
    "recompute",
    "checkpointing",
    "checkpoint_every",
    "loss_chunks",
    "zero",
    "micro_batches",
    "interleave",
    "frozen",
}
OF_INFERENCE = {"cache_dtype", "engine", "batched_tokens", "logits", "state_dtype", "latent_reading", "window_reading"}


class Words(click.ParamType):
    """Words with commas between them."""

    name = "NAME,NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(value.split(","))


class Counts(click.ParamType):
    """Whole numbers with commas between them."""

    name = "N,N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        counts = value.split(",")
        if not all(count.isdecimal() and count.isascii() and len(count) < 10 for count in counts):
            raise Refused(param.opts[0] if param else "value", "whole numbers with commas between them", value)
        return tuple(map(int, counts))


def _choice(name: str, words: Any, default: str, text: str) -> Any:
    return click.option(name, type=click.Choice(list(words)), show_default=default, help=text)


def _degree(name: str, text: str, default: str = "1", least: int = 1) -> Any:
    return click.option(name, type=Tokens(least), show_default=default, help=text)


mode = _choice("--mode", MODES, "training", "What is run: a step of training, or a server's passes.")
_OPTIONS = (
    _choice("--recipe", [each.name for each in RECIPES], "bf16-mixed", "Training: number formats."),
    _choice("--optimizer", [each.name for each in OPTIMIZERS], "adamw", "Training: what updates the weights."),
    _choice("--execution", EXECUTIONS, "sdpa", "Which kernels run, and so what they keep."),
    click.option(
        "--dropout",
        type=float,
        metavar="P",
        show_default="0",
        help="Training: its probability, wherever the model has it.",
    ),
    click.option("--recompute", type=Words(), help=f"Training: computed again in backward: {', '.join(REGIONS)}."),
    _degree("--checkpoint-every", "Training: of so many layers, one is checkpointed."),
    _degree("--loss-chunks", "Training: pieces in which logits and loss are computed."),
    click.option(
        "--fused-loss/--no-fused-loss",
        default=None,
        help="Training: the loss works in the logits' place.  [default: with --execution fused]",
    ),
    _choice("--device", ("cuda", "cpu"), "cuda", "Training: where, since masks and casts differ."),
    _degree("--dp", "Data-parallel ranks; --batch is of one of them."),
    _degree("--tp", "Tensor-parallel ranks."),
    _degree("--pp", "Stages of a pipeline."),
    _degree("--cp", "Context-parallel ranks."),
    _degree("--ep", "Ranks that experts are spread over, among those of --dp and --cp."),
    _degree("--zero", "Training: data-parallel ranks divide 1 the optimizer, 2 gradients, 3 weights too.", "0", 0),
    click.option(
        "--sequence-parallel/--no-sequence-parallel",
        default=None,
        help="Tensor-parallel ranks divide the residual stream.  [default: with --tp]",
    ),
    _degree("--micro-batches", "Training: of one step.", "as many as fill the pipeline; one without"),
    _degree("--interleave", "Training: pieces of its layers that a stage holds."),
    click.option("--stages", type=Counts(), help="Layers of each stage.  [default: as even as can be]"),
    click.option(
        "--frozen-dtype",
        "frozen",
        metavar="FORMAT",
        help="Training beside an adapter: of frozen weights, as nf4:g64.  [default: the recipe's]",
    ),
    _choice("--cache-dtype", CACHE_DTYPES, "that of activations", "Inference: keys and values."),
    _choice("--engine", [each.name for each in ENGINES], "none", "Inference: whose rules allocate the cache."),
    _degree("--batched-tokens", "Inference: tokens of prompts in one pass.", "all, or the engine's"),
    _choice("--logits", ("last", "all"), "last", "Inference: positions of a prompt with logits."),
)


def plan(function: F) -> F:
    """Options of a plan, `mode` among them, passed on as `plan: Plan`, or None where none of them is given."""

    @wraps(function)
    def with_plan(*args: Any, **asked: Any) -> Any:
        given = {name: asked.pop(name) for name in Plan.__dataclass_fields__ if name in asked}
        given = {name: value for name, value in given.items() if value is not None}
        return function(*args, plan=Plan(**given) if given else None, **asked)

    for option in reversed(_OPTIONS):
        with_plan = option(with_plan)
    return with_plan  # pyright: ignore[reportReturnType] (wraps keeps the signature)


def note_undivided(plan: Plan) -> None:
    """Say so where a ZeRO stage has no ranks to divide anything among."""
    if plan.zero and plan.dp * plan.cp == 1:
        click.echo(f"note: --zero {plan.zero} divides nothing among one data-parallel rank; add --dp", err=True)


def unused(asked: str, plan: Plan | None, takes_plan: bool = True) -> None:
    """Name the options of a plan that were given though `asked`, or the plan's mode, does not depend on them."""
    context = click.get_current_context()
    mode = (plan or Plan()).mode
    other = OF_INFERENCE if mode == "training" else OF_TRAINING
    for option in context.command.params:
        name = option.name or ""
        mine = name in other if takes_plan else name in Plan.__dataclass_fields__
        if mine and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            click.echo(f"note: {option.opts[0]} changes nothing in {mode if takes_plan else asked}", err=True)
