"""What every tool's launch file is made from, and what reading one gives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.plan.layouts import Layout
from calc.plan.question import Question
from calc.spec import ModelSpec
from calc.spec.cluster import Cluster
from calc.spec.run import Run
from calc.spec.run.precision import summed_in

NO_GRAPHS = "none"
"""What CUDA graphs launch of a plan that a file can say: others take memory that is not known."""
LONGEST = 2**20
"""Characters of a launch file that are read."""


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
    no other ranks. n_layers, width: of the model that it trains, where it says them."""

    words: Mapping[str, Any]
    sequences: int | None
    gpus: int | None
    unread: tuple[str, ...]
    division: Division = Division()
    checkpointed: int | None = None
    waiting: int | None = None
    each: int | None = None
    n_layers: int | None = None
    width: int | None = None


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
        self._has_words("graphs", question.words.get("graphs") or NO_GRAPHS, (NO_GRAPHS,))

    def write(self, launch: Launch) -> str:
        """A plan's file. Errors: Refused for number formats and other settings that it has no words for."""
        run = launch.run
        self._has_words("recipe", run.recipe, self.recipes)
        self._has_words("gradient_dtype", run.precision.summed, self.gradients)
        self._has_words("optimizer", run.usual_optimizer, self.optimizers)
        self._has_modules(bool(run.mtp) and launch.question.spec.mtp is not None)
        self._has_words("graphs", run.graphs or NO_GRAPHS, (NO_GRAPHS,))
        return self.text_of(launch)

    def _has_words(self, field: str, value: str, known: Collection[str] | None) -> None:
        if known is not None and value not in known:
            raise Refused(field, f"one of {', '.join(known)} in files of {self.name}", value)

    def _has_modules(self, asked: bool) -> None:
        if asked and not self.further:
            raise Refused("mtp", f"none in files of {self.name}, which have no words for further tokens", "given")

    def left_to_program(self, launch: Launch) -> dict[str, Any]:
        """What a plan's file leaves to the user's program, by the names of a Run's fields."""
        run = launch.run.changed(optimizer=launch.run.usual_optimizer)
        said = "optimizer" in launch.question.words and self.optimizers is not None
        return {name: getattr(run, name) for name in self.leaves if name != "optimizer" or not said}
