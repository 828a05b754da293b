"""What every tool's launch file is made from, and what reading one gives."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, overload

from calc.errors import Refused
from calc.plan.layouts import Layout
from calc.plan.question import Question
from calc.spec import ModelSpec
from calc.spec.cluster import Cluster
from calc.spec.run import MODULES, Run
from calc.spec.run.precision import summed_in
from calc.units import parse_tokens

CORE = "core_attn"
"""Attention's core, as Megatron-Core calls it."""
LONGEST = 2**20
"""Characters of a launch file that are read."""
ALIKE = 0.9
"""How alike two settings' names are, of 1, where one is taken for the other misspelt."""


class Launch(NamedTuple):
    """A plan to be written down."""

    question: Question
    run: Run

    @property
    def nodes(self) -> int:
        """Machines, the last of them perhaps not full."""
        return -(-int(self.run.gpus) // self.question.cluster.node)

    @property
    def per_node(self) -> int:
        """GPUs of a machine."""
        return min(int(self.run.gpus), self.question.cluster.node)


class Division(NamedTuple):
    """How a launch file divides layers among stages. piece: layers of a piece of a stage, where it says so many and not
    how many pieces a stage has. embedding, loss: layers that they count for. first, last: layers of those stages, where
    it says so. layout: where all pieces are written out. further: modules that predict further tokens. even: whether
    all pieces must have as many, with embedding and loss."""

    piece: int | None = None
    embedding: int = 0
    loss: int = 0
    first: int | None = None
    last: int | None = None
    layout: Layout | None = None
    further: int = 0
    even: bool = True


class Read(NamedTuple):
    """What a launch file says of a plan. words: fields of a Run. sequences: of a step. gpus: where it says how many.
    unread: its settings that no plan has. division: of layers among stages, where it speaks of stages. checkpointed:
    layers of a piece that are, where the file says so many. waiting: layers whose activations wait on the host, where
    the file says so many. each: sequences of a data-parallel rank in a step, where the file says so many and there are
    no other ranks."""

    words: Mapping[str, Any]
    sequences: int | None
    gpus: int | None
    unread: tuple[str, ...]
    division: Division = Division()
    checkpointed: int | None = None
    waiting: int | None = None
    each: int | None = None


class Tool(NamedTuple):
    """One tool. version, source: what its fields are held to. stack: whose time its plans have. launcher: what it can
    launch, by the names of calc/data/launchers.toml. recipes: formats that its files say. text_of: a plan's file.
    known: names of the settings that are read of its files. optimizers: those that its files can say; None: any, or
    none where `leaves` has it. leaves: fields of a Run that its files leave to the user's program. further: whether
    they speak of modules that predict further tokens. gradients: formats in which its files say that gradients are
    summed; of one alone they say nothing, whatever is asked."""

    name: str
    version: str
    source: str
    stack: str
    launcher: str
    recipes: tuple[str, ...]
    text_of: Callable[[Launch], str]
    read: Callable[[str, str], Read]
    known: tuple[str, ...]
    optimizers: tuple[str, ...] | None = None
    leaves: tuple[str, ...] = ()
    further: bool = False
    gradients: tuple[str, ...] = ("fp32",)

    @property
    def words(self) -> dict[str, Any]:
        """What holds of every plan of its files, by the names of a Run's fields."""
        usual = self.gradients[0] == summed_in(self.recipes[0], None).summed
        return {"stack": self.stack} | ({} if usual else {"gradient_dtype": self.gradients[0]})

    def question(
        self,
        spec: ModelSpec,
        cluster: str | Cluster,
        gpus: int | Sequence[int] | None,
        seq: int,
        sequences: int,
        *,
        words: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Question:
        """A question whose plans this tool's files hold, as `Question.about` makes it. Errors: Refused for a stack that
        this tool does not launch, and for what no file of it can say, ahead of a search whose best plan has no file."""
        stack = (words or {}).get("stack") or self.stack
        if stack != self.stack:
            raise Refused("--stack", f"{self.stack}, whose plans {self.name} launches", stack)
        asked = {**self.words, **(words or {})}
        made = Question.about(spec, cluster, gpus, seq, sequences, words=asked, launched=self.launcher, **more)
        self.check(made)
        return made

    def check(self, question: Question) -> None:
        """Errors: Refused for what is asked of all plans and no file of this tool can say."""
        recipe = question.fixed.get("recipe")
        for each in question.recipes if recipe is None else (recipe,):
            self._has_words("recipe", each, self.recipes)
            formats = summed_in(each, question.words.get("gradient_dtype"))
            self._has_words("gradient_dtype", formats.summed, self.gradients)
        if (optimizer := question.words.get("optimizer")) is not None:
            self._has_words("optimizer", optimizer, self.optimizers)
        self._has_modules(bool(question.words.get("mtp")))

    def write(self, launch: Launch) -> str:
        """A plan's file. Errors: Refused for number formats and other settings that it has no words for."""
        run = launch.run
        self._has_words("recipe", run.recipe, self.recipes)
        self._has_words("gradient_dtype", run.precision.summed, self.gradients)
        self._has_words("optimizer", run.usual_optimizer, self.optimizers)
        self._has_modules(bool(run.mtp) and launch.question.spec.mtp is not None)
        return self.text_of(launch)

    def _has_words(self, field: str, value: str, known: Collection[str] | None) -> None:
        if known is not None and value not in known:
            raise Refused(field, f"one of {', '.join(known)} in files of {self.name}", value)

    def _has_modules(self, asked: bool) -> None:
        if asked and not self.further:
            raise Refused("mtp", f"none in files of {self.name}, which have no words for further tokens", "given")

    def left(self, launch: Launch) -> dict[str, Any]:
        """What a plan's file leaves to the user's program, by the names of a Run's fields."""
        run = launch.run.changed(optimizer=launch.run.usual_optimizer)
        said = "optimizer" in launch.question.words and self.optimizers is not None
        return {name: getattr(run, name) for name in self.leaves if name != "optimizer" or not said}


def meant(name: str, known: Collection[str]) -> str:
    """A setting that is not read, with a hint where it looks like one that is, but for a letter or two."""
    from difflib import get_close_matches

    plain = {each.replace("_", "-"): each for each in known}
    close = get_close_matches(name[:80].replace("_", "-"), plain, n=1, cutoff=ALIKE)
    return f"{name} (did you mean {plain[close[0]]}?)" if close else name


def torchrun(launch: Launch, program: str) -> str:
    """The beginning of a command on every machine."""
    where = f"--nnodes {launch.nodes} --nproc-per-node {launch.per_node}"
    rendezvous = " --rdzv-backend c10d --rdzv-endpoint $HEAD:29500" if launch.nodes > 1 else ""
    return f"torchrun {where}{rendezvous} {program}"


def command(start: str, options: Iterable[tuple[str, Any]]) -> str:
    """A command with an option a line; one whose value is True is a flag, None and False are left out.
    A tuple is several values."""
    lines = [start]
    for name, value in options:
        if value is None or value is False:
            continue
        if isinstance(value, tuple):
            lines.append(shlex.join([name, *value]))
            continue
        lines.append(name if value is True else f"{name} {shlex.quote(str(value))}")
    return " \\\n  ".join(lines) + "\n"


def options_of(text: str, where: str, known: Collection[str]) -> dict[str, str]:
    """Option -> value of a command, or of a script that holds one; a flag's value is empty.

    Errors: Refused for text that is no command, or that has none of the `known` options.
    """
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise Refused(where, f"a command ({error})", text[:40]) from None
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word.partition("=")
        after = words[place + 1] if place + 1 < len(words) else "--"
        found[name] = value if equals else "" if after.startswith("--") else after
    if not found.keys() & set(known):
        raise Refused(where, f"options, {next(iter(known))} among them", text[:40])
    return found


def values_of(text: str, option: str) -> tuple[str, ...]:
    """All values of an option of a command that takes several; none where it is absent. text: a command that
    `options_of` has read."""
    words = shlex.split(text.replace("\\\n", " "), comments=True)
    found: list[str] = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name != option:
            continue
        found = [value] if equals else []
        for after in words[place + 1 :]:
            if after.startswith("--"):
                break
            found.append(after)
    return tuple(found)


def granularity(run: Run) -> str | None:
    """Megatron-Core's recompute_granularity; None where nothing is computed again."""
    return run.checkpointing if run.checkpointing != "none" else "selective" if run.recompute else None


def modules_written(run: Run) -> tuple[str, ...] | None:
    """Megatron-Core's recompute_modules; None where they are as usual, attention's core alone."""
    if not run.recompute:
        return None
    core = run.checkpointing == "selective" and CORE not in run.recompute
    return (CORE,) * core + run.recompute


def modules_read(modules: Sequence[str] | None, where: str) -> dict[str, Any]:
    """The words of selective recomputation of these modules; None: of attention's core. Errors: Refused for modules
    that are not described."""
    if modules is None:
        return {"checkpointing": "selective"}
    for name in modules:
        if name not in MODULES:
            raise Refused(where, f"one of {', '.join(MODULES)}", name)
    others = tuple(name for name in modules if name != CORE)
    return {"checkpointing": "selective" if CORE in modules else "none"} | ({"recompute": others} if others else {})


@overload
def whole(found: Mapping[str, Any], name: str, where: str, usual: int, least: int = 1) -> int: ...
@overload
def whole(found: Mapping[str, Any], name: str, where: str, usual: None = None, least: int = 1) -> int | None: ...
def whole(found: Mapping[str, Any], name: str, where: str, usual: int | None = None, least: int = 1) -> int | None:
    """The whole number from `least` on that a setting gives, `usual` where it is absent. Errors: Refused for anything
    else."""
    if name not in found or found[name] is None:
        return usual
    return parse_tokens(str(found[name]), f"{where}: {name}", least)


def unread_within(found: Mapping[str, Any], section: str, known: Collection[str]) -> tuple[str, ...]:
    """Settings of a section of a launch file that no plan has, with the section's name before each."""
    its = found.get(section)
    return tuple(f"{section}.{name}" for name in its if name not in known) if isinstance(its, dict) else ()


def recomputed(launch: Launch) -> tuple[str, int]:
    """(method, layers) by which Megatron-Core is told which layers are checkpointed: each by itself, or the first so
    many of every piece of a stage."""
    run, layers = launch.run, launch.question.spec.n_layers
    if run.checkpoint_every == 1:
        return "uniform", 1
    pieces = run.pp * run.interleave
    return "block", -(-layers // (pieces * run.checkpoint_every))


def checkpointed(found: Mapping[str, Any], method: str, layers: str, where: str) -> int | None:
    """The layers of every piece that are checkpointed, None where all are; by the names of two settings.

    Errors: Refused for another method, and for several layers that are checkpointed as one.
    """
    number = whole(found, layers, where, 1)
    if one_of(found, method, {"uniform": False, "block": True}, "uniform", where):
        return number
    if number != 1:
        raise Refused(f"{where}: {layers}", "1, each layer by itself, or the method block", number)
    return None


def one_of(found: Mapping[str, Any], name: str, known: Mapping[str, Any], usual: str, where: str) -> Any:
    """What the word of a setting stands for. Errors: Refused for a word that is not known."""
    word = str(found.get(name, usual))
    if word not in known:
        raise Refused(f"{where}: {name}", f"one of {', '.join(known)}", word)
    return known[word]
