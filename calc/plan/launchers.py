"""What a stack can launch, as calc/data/launchers.toml says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from calc.errors import Refused
from calc.reading.files import parse_toml, read_text
from calc.spec.run import Run
from calc.spec.stack import USUAL_STACK, stack_names

LAUNCHERS = Path(__file__).parents[1] / "data" / "launchers.toml"
Stages = Literal["any", "by layers", "layouts"]
Modules = Literal["layouts", "ends"]
Experts = Literal["any", "cut", "whole"]


class Launcher(NamedTuple):
    """One stack. recipes: its number formats. only: field of a Run -> the values that it can launch.
    stages: how layers are cut into pieces: told as the layers of a piece, of which the first and the last may have
    fewer; or written out piece by piece. modules: whether what is written out has modules that predict further tokens,
    or the ends alone of stages that hold one piece are others beside them. experts: whether tensor-parallel ranks cut
    routed experts always, may have whole ones instead, or have whole ones wherever experts are spread.
    narrow_zero: the stages of ZeRO that go with moments in bf16; None: all. recomputable: modules that it can have
    computed again by themselves; None: any. module_sets: those of them that are tried together, as recipes do.
    ranks: why there are no others than data-parallel ones, where that is so."""

    name: str
    source: str
    recipes: tuple[str, ...]
    only: Mapping[str, tuple[Any, ...]]
    stages: Stages = "any"
    experts: Experts = "any"
    modules: Modules = "layouts"
    narrow_zero: tuple[int, ...] | None = None
    recomputable: tuple[str, ...] | None = ()
    module_sets: tuple[tuple[str, ...], ...] = ()
    ranks: str = ""

    def takes(self, name: str, value: Any) -> bool:
        """Whether a plan with this value can be launched."""
        if name == "recompute":
            return self.recomputable is None or set(value) <= set(self.recomputable)
        return name not in self.only or value in self.only[name]

    def cuts(self, tp: Any, ep: Any, pieces: Any) -> Any:
        """Whether so many tensor-parallel ranks may cut each expert into so many pieces, where experts are spread over
        so many ranks: numbers or columns."""
        if self.experts == "whole":
            return (tp == 1) | ((pieces == 1) == (ep > 1))
        return (pieces == tp) | (self.experts == "any")


def launcher(name: str | None) -> Launcher:
    """What the stack called `name` can launch. Errors: Refused for one of which nothing is written down."""
    tables, stack = _tables(), name or USUAL_STACK
    known: Mapping[str, Mapping[str, Any]] = tables["stacks"]
    if stack not in known:
        stacks = [each for each in known if each in stack_names()]
        raise Refused("--stack", f"one of {', '.join(stacks)}, whose plans are known", name)
    table = dict(known[stack])
    source, recipes = table.pop("source"), tuple(table.pop("recipes"))
    stages, experts, ranks = table.pop("stages", "any"), table.pop("experts", "any"), table.pop("ranks", "")
    modules, narrow = table.pop("modules", "layouts"), table.pop("narrow_zero", None)
    again = table.pop("recomputable", None if stack == USUAL_STACK else ())
    narrow = narrow and tuple(narrow)
    only = {field: tuple(values) for field, values in table.items()}
    again = again and tuple(again)
    sets = tuple(tuple(names) for names in tables["modules"]["sets"] if set(names) <= set(again or ()))
    return Launcher(stack, source, recipes, only, stages, experts, modules, narrow, again, sets, ranks)


def unlaunched(run: Run, said: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Of the fields that were said, those with values that the stack of a run does not launch, for which `plan` rules
    it out (calc/plan/checks.py has columns of them); none without a stack, or of one that is not written down."""
    if run.stack is None or run.stack.name not in _tables()["stacks"]:
        return
    known = launcher(run.stack.name)
    for name in (*known.only, "recompute"):
        alone = name == "zero" and run.sharing == 1
        if name in said and not alone and not known.takes(name, getattr(run, name)):
            yield name, getattr(run, name)


@cache
def _tables() -> Mapping[str, Any]:
    return parse_toml(read_text(LAUNCHERS), LAUNCHERS.name)
