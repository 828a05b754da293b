"""How the words of `plan` are read: batches, numbers of GPUs, what is fixed, prices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from calc import checks
from calc.cli.costs import Price
from calc.cli.run_options import given
from calc.errors import Refused, shortened
from calc.plan.question import BOUNDED, CHOICES, SIZES, sequences_of
from calc.spec import ModelSpec
from calc.spec.run import MODULES
from calc.spec.run.precision import RECIPE_BY_NAME
from calc.units import parse_tokens

ALIASES = {"micro_batch": "batch", "dtype": "recipe", "vp": "interleave"}
"""Other names that people and answers have for a field of a Run."""
MOST_NUMBERS = 64


class Gpus(click.ParamType):
    """Numbers of GPUs: 64, several with commas between them, or 8..512 by doubling."""

    name = "N|N..N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        field = param.opts[0] if param else "value"
        low, dots, high = value.partition("..")
        if not dots:
            return tuple(dict.fromkeys(parse_tokens(each, field, 1) for each in value.split(",")[:MOST_NUMBERS]))
        first, last = parse_tokens(low, field, 1), parse_tokens(high, field, 1)
        if first > last:
            raise Refused(field, "the smaller number first, as 8..512", value)
        found = [first]
        while found[-1] * 2 < last:
            found.append(found[-1] * 2)
        return tuple(dict.fromkeys([*found, last]))


class GlobalBatch(click.ParamType):
    """Tokens of a step, as 4Mi or 4000000, or its sequences, as 512seq."""

    name = "TOKENS|Nseq"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text, field = str(value).strip(), param.opts[0] if param else "value"
        try:
            parse_tokens(text.removesuffix("seq"), field, 1)
        except Refused as refused:
            raise Refused(field, f"{refused.expected}: tokens, as 4Mi, or sequences, as 512seq", text) from None
        return text


def refuse_own_length(specs: Sequence[ModelSpec]) -> None:
    """Errors: Refused for --seq of a model that reads what has a length of its own."""
    found = click.get_current_context().params["seq"]
    if given("seq") and any(spec.has_own_length for spec in specs):
        raise Refused("--seq", "none, for a model that reads what has a length of its own", found)


def refuse_tokens(spec: ModelSpec, words: Mapping[str, Any]) -> None:
    """Errors: Refused for tokens of a step or of a run, where a model reads none."""
    if spec.reads_tokens:
        return
    for name in ("tokens", "days", "flops"):
        if words[name] is not None:
            raise Refused(f"--{name}", "none, for a model that reads no tokens", words[name])
    if not words["global_batch"].endswith("seq"):
        raise Refused("--global-batch", "Nseq, for a model that reads no tokens", words["global_batch"])


OF_GRID = ("params", "flops", "law")
"""Options that say what shapes may be, and nothing without --model-grid."""
UNASKED = {
    "--model-grid": ("written", "source", "objective", "days", "top"),
    "--from": ("tokens", "days", "objective", "top"),
    "--days without --gpus": ("written", "objective"),
    "--days with --gpus": ("written", "tokens"),
}
"""What is asked -> options that would change nothing in it."""


def refuse_contradictions(words: Mapping[str, Any]) -> None:
    """Errors: Refused for options that change nothing beside others, and for several clusters where one is asked of."""
    names = {option.name: option.opts[0] for option in click.get_current_context().command.params}
    asked = _asked(words)
    if words["source"] is None and words["global_batch"] is None:
        raise Refused("--global-batch", "tokens of a step, as 4Mi, or its sequences, as 512seq", "none")
    if words["source"] is not None and words["written"] is None:
        raise Refused("--as", "the tool that --from is a file of", "none")
    for name in OF_GRID if words["grid"] is None else ():
        if given(name):
            raise Refused(names[name], "--model-grid beside it, of whose shapes it is said", words[name])
    for name in UNASKED[asked] if asked else ():
        if given(name):
            raise Refused(names[name], f"none beside {asked}, in which it changes nothing", words[name])
    if asked not in (None, "--days with --gpus") and len(words["cluster"]) > 1:
        raise Refused("--cluster", f"one beside {asked}", ",".join(words["cluster"]))


def _asked(words: Mapping[str, Any]) -> str | None:
    """What is asked beside the best plans, by the names of UNASKED."""
    if words["grid"] is not None:
        return "--model-grid"
    if words["source"] is not None:
        return "--from"
    if words["days"] is None:
        return None
    return "--days without --gpus" if words["gpus"] is None else "--days with --gpus"


class Settings(click.ParamType):
    """One NAME=VALUE."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if not isinstance(value, str):
            return value
        name, equals, word = value.partition("=")
        if not equals or not word:
            raise Refused(param.opts[0] if param else "value", "NAME=VALUE, such as tp=8", shortened(value, 40))
        plain = name.strip().replace("-", "_")
        return ALIASES.get(plain, plain), word.strip()


def sequences(text: str, seq: int) -> tuple[int, str]:
    """(sequences of a step, what a reader should know of how they were rounded)."""
    number = parse_tokens(text.removesuffix("seq"), "--global-batch", 1)
    if text.endswith("seq"):
        return number, ""
    found = sequences_of(number, seq)
    if found * seq == number:
        return found, ""
    return (
        found,
        f"--global-batch {number:,} is no multiple of --seq {seq:,}: {found:,} sequences, {found * seq:,} tokens",
    )


def fixed(said: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What `--fix` says, each word as its field takes it. Errors: Refused for what no plan can be."""
    found: dict[str, Any] = {}
    _once("--fix", said)
    for name, word in said:
        if name in BOUNDED:
            found[name] = parse_tokens(word, f"--fix {name}", 0 if name == "zero" else 1)
        elif name == "sequence_parallel":
            found[name] = _truth(word)
        elif name == "offload_layers":
            found[name] = parse_tokens(word, f"--fix {name}", 1)
        elif name == "recompute":
            found[name] = _modules(word)
        elif name in CHOICES or name == "recipe":
            known = {str(value): value for value in CHOICES.get(name) or tuple(RECIPE_BY_NAME)}
            if word not in known:
                raise Refused(f"--fix {name}", f"one of {', '.join(known)}", word)
            found[name] = known[word]
        else:
            raise Refused("--fix", f"one of {', '.join((*SIZES, *CHOICES, 'recipe'))}", name)
    return found


def _modules(word: str) -> tuple[str, ...]:
    """Modules with a comma or a plus between them, or none."""
    names = () if word == "none" else tuple(dict.fromkeys(re.split(r"[,+]", word)))
    for each in names:
        checks.word("--fix recompute", each, MODULES)
    return names


def at_most(said: Sequence[tuple[str, str]]) -> dict[str, int]:
    """What `--at-most` says."""
    _once("--at-most", said)
    for name, _ in said:
        if name not in BOUNDED:
            raise Refused("--at-most", f"one of {', '.join(BOUNDED)}", name)
    return {name: parse_tokens(word, f"--at-most {name}", 0) for name, word in said}


def _once(option: str, said: Sequence[tuple[str, str]]) -> None:
    names = [name for name, _ in said]
    for name in names:
        if names.count(name) > 1:
            raise Refused(option, f"{name} once", f"{names.count(name)} times")


def agree(fixed: Mapping[str, Any], most: Mapping[str, int]) -> None:
    """Errors: Refused for what is fixed beyond what it may be at most."""
    for name, limit in most.items():
        if name in fixed and fixed[name] > limit:
            raise Refused(f"--fix {name}", f"at most {limit}, as --at-most says", fixed[name])


def headroom(text: str) -> float:
    """A part of the memory: 5%, or 0.05."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else 1.0
    if not 0 <= share < 1:
        raise Refused("--headroom", "a part of the memory below 100%, such as 5%", shortened(text, 40))
    return share


def recipes(text: str | None) -> tuple[str, ...]:
    """Recipes with commas between them; none where nothing is said."""
    names = tuple(text.split(",")) if text else ()
    for name in names:
        if name not in RECIPE_BY_NAME:
            raise Refused("--dtype", f"recipes of {', '.join(RECIPE_BY_NAME)}, with commas between them", name)
    return names


def prices(text: str | None, clusters: Sequence[str]) -> Mapping[str, float]:
    """Cluster -> the price of a GPU-hour: of `2/h` for all, or of dgx-h100=2/h,dgx-b200=4/h for each."""
    if text is None:
        return {}
    if "=" not in text:
        return dict.fromkeys(clusters, Price().convert(text, None, None))
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, price = part.partition("=")
        if name not in clusters:
            raise Refused("--price", f"a price of one of {', '.join(clusters)}", name)
        found[name] = Price().convert(price, None, None)
    return found


def _truth(word: str) -> bool:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if word.lower() not in known:
        raise Refused("--fix sequence_parallel", "true or false", word)
    return known[word.lower()]
