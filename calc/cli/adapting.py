"""Options of adapters: a few trained weights beside a model that stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from calc.blocks.adapters import usual_targets
from calc.blocks.build import weighed
from calc.cli.options import Tokens
from calc.errors import Refused
from calc.output.notes import note
from calc.spec import Adapter, Bottleneck, Lora, ModelSpec, Prefix, Prompt
from calc.spec.adapters import DEFAULT_TARGETS
from calc.spec.fields import refuse

F = TypeVar("F", bound=Callable[..., Any])


def adapters(function: F) -> F:
    """The options of adapters; the command gets its models with the adapter that they describe."""

    @wraps(function)
    def with_adapter(*args: Any, **given: Any) -> Any:
        named = given["lora_targets"] is not None
        adapter = _adapter({name: given.pop(name) for name in ("lora_rank", "prefix", "prompt", "bottleneck")}, given)
        if adapter is not None and "model" in given:
            given["model"] = _with_adapter(given["model"], adapter, named)
        elif adapter is not None:
            given["models"] = tuple(_with_adapter(spec, adapter, named) for spec in given["models"])
        return function(*args, **given)

    for option in (
        click.option("--bottleneck", type=Tokens(), help="Adapters of this width behind attention and feed-forward."),
        click.option("--prompt", type=Tokens(), help="Trained vectors in front of the embedded tokens."),
        click.option("--prefix", type=Tokens(), help="Trained keys and values in front of each layer's own."),
        click.option(
            "--lora-targets",
            metavar="NAME,NAME",
            help="Matrices with an update, by the last names of `params MODEL --by-path`: q_proj, k_proj, v_proj or "
            "fused qkv_proj, o_proj, gate_proj, up_proj or fused gate_up_proj, down_proj, ... "
            f"[default: {','.join(DEFAULT_TARGETS)}, or qkv_proj where they are one]",
        ),
        click.option("--lora-rank", type=Tokens(), help="Freeze the model and train low-rank updates of this rank."),
    ):
        with_adapter = option(with_adapter)
    return with_adapter  # pyright: ignore[reportReturnType] (wraps keeps the signature)


def _adapter(sizes: dict[str, int | None], words: dict[str, Any]) -> Adapter | None:
    """The one adapter that is asked for, or None."""
    names = words.pop("lora_targets")
    targets = None if names is None else tuple(names.split(","))
    given = {name: size for name, size in sizes.items() if size is not None}
    if names is not None and "lora_rank" not in given:
        raise Refused("--lora-targets", "--lora-rank beside it", names)
    if len(given) > 1:
        raise Refused("adapter", "one of them", " and ".join(f"--{name.replace('_', '-')}" for name in given))
    kinds: dict[str, Callable[[int], Adapter]] = {
        "lora_rank": lambda rank: Lora(rank=rank, targets=targets or DEFAULT_TARGETS),
        "prefix": lambda length: Prefix(length=length),
        "prompt": lambda length: Prompt(length=length),
        "bottleneck": lambda width: Bottleneck(width=width),
    }
    try:
        return next((kinds[name](size) for name, size in given.items()), None)
    except ValidationError as error:
        raise refuse(error, "adapter") from None


def _with_adapter(spec: ModelSpec, adapter: Adapter, named: bool) -> ModelSpec:
    """`spec` with the adapter. named: its matrices were chosen, and are not to be those that are usual in `spec`."""
    if spec.adapter is not None:
        raise Refused("adapter", f"none beside the one that {spec.name} is described with", adapter.kind)
    if isinstance(adapter, Lora) and not named:
        usual = usual_targets(weighed(spec))
        if usual != adapter.targets:
            note(spec, f"--lora-targets {','.join(usual)}, since {' and '.join(adapter.targets)} are one matrix here")
            adapter = adapter.model_copy(update={"targets": usual})
    return spec.model_copy(update={"adapter": adapter})
