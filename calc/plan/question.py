"""What is searched: a model on so many GPUs of a cluster, and what is held fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from calc.errors import Refused
from calc.memory.expert_conditions import whole_experts
from calc.plan.agreement import check_fixed, check_formats
from calc.plan.launchers import Launcher, launcher
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.spec.cluster import Cluster
from calc.spec.clusters import load_cluster
from calc.spec.hardware import Device
from calc.spec.run import CHECKPOINTING, OFFLOADS, Run

SIZES = ("dp", "tp", "pp", "cp", "ep", "zero", "batch", "micro_batches", "interleave")
"""Sizes of a plan that are searched for, by the names of a Run's fields."""
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "checkpointing": tuple(name for name in CHECKPOINTING if name != "full-early-stop"),
    "checkpoint_every": (1, 2, 4, 8),
    "recompute": ((),),
    "schedule": ("1f1b", "zero-bubble", "dualpipe"),
    "sequence_parallel": (True, False),
    "expert_tp": (None, 1),
    "offload": OFFLOADS,
    "offload_fraction": (1, 0.75, 0.5, 0.25),
    "offload_layers": (None,),
}
"""Words of a plan that are searched for; of recipes those that the question names. GPipe is not among them, which
holds every micro-batch. Modules that are computed again are those that are fixed, or sets of the stack's.
Parts of the optimizer are of plans that have it on the host, and numbers of layers of those that have activations
there: all but the last, those that are fixed, or quarters of all (`calc.plan.space`). Experts are in as many pieces as
there are tensor-parallel ranks where nothing is said of them."""
BOUNDED = (*SIZES, "expert_tp")
"""What a question may bound. Pieces of experts follow from a word and tp, and are fixed and bounded as a size."""
IF_ASKED = {"offload": "none"}
"""Words of which one value alone is listed unless a question fixes another."""
BESIDE_MODULES = ("none", "selective")
"""Checkpointing beside which modules are computed again by themselves."""
CONTEXT = 2**30
"""Bytes of a GPU that CUDA's context and its libraries' own buffers take, at most; beside what PyTorch reserves."""
MOST_GPUS = 2**17


@dataclass(frozen=True, slots=True)
class Question:
    """A training run to be planned.

    gpus: how many, and more numbers where several are compared. seq: tokens of a sequence, or vectors. sequences: of a
    step, on all GPUs. recipes: number formats among which is chosen. fixed: sizes and words that must be so,
    at_most: sizes that may not be larger, both by the names of a Run's fields. headroom: part of a GPU's memory
    that stays free beside what PyTorch reserves and CUDA's context. words: what else a Run says (stack, execution,
    optimizer, number formats). model, place: what the user called the model and the cluster. read_as: options by which
    a command line reads that model. price: of a GPU-hour, None where none is known. launched: by whose rules
    (calc/data/launchers.toml), where not by those of the stack.
    Errors: Refused for sizes out of range, and for names that no plan has.
    """

    spec: ModelSpec
    cluster: Cluster
    gpus: tuple[int, ...]
    seq: int
    sequences: int
    recipes: tuple[str, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    at_most: Mapping[str, int] = field(default_factory=dict)
    headroom: float = 0.0
    words: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    read_as: tuple[str, ...] = ()
    place: str = ""
    price: float | None = None
    launched: str | None = None

    def __post_init__(self) -> None:
        for name in self.fixed:
            if name not in (*SIZES, *CHOICES, "recipe"):
                raise Refused("--fix", f"one of {', '.join((*SIZES, *CHOICES, 'recipe'))}", name)
        check_formats(self.spec, self.cluster, self.recipes, self.words, self.fixed)
        for name in CHOICES.keys() & self.words.keys():
            raise Refused(name, f"--fix {name}=VALUE where plans are searched", self.words[name])
        for name in self.at_most:
            if name not in BOUNDED:
                raise Refused("--at-most", f"one of {', '.join(BOUNDED)}", name)
        for option, sizes in (("--fix", self.fixed), ("--at-most", self.at_most)):
            if "expert_tp" in sizes and not whole_experts(self.spec):
                expected = "none but of a model with experts that tensor-parallel ranks need not cut"
                raise Refused(f"{option} expert_tp", expected, sizes["expert_tp"])
        most = self.cluster.most or MOST_GPUS
        for n in self.gpus:
            if not 1 <= n <= most:
                raise Refused("--gpus", f"1 to {most:,} GPUs of {self.cluster.name}", n)
        if self.offloads and self.cluster.host is None:
            raise Refused(
                "--fix offload",
                "none on a cluster of which nothing says what memory its machines have",
                self.fixed["offload"],
            )
        if "offload_fraction" in self.fixed and self.fixed.get("offload") != "optimizer":
            raise Refused("--fix offload_fraction", "--fix offload=optimizer beside it", self.fixed["offload_fraction"])
        if "offload_layers" in self.fixed and self.fixed.get("offload") != "activations":
            raise Refused("--fix offload_layers", "--fix offload=activations beside it", self.fixed["offload_layers"])
        if self.fixed.get("recompute") and self.fixed.get("checkpointing", "none") not in BESIDE_MODULES:
            raise Refused("--fix recompute", "checkpointing none or selective beside it", self.fixed["checkpointing"])
        if not 0 <= self.headroom < 1:
            raise Refused("--headroom", "a part of the memory from 0 on, below 1", self.headroom)
        check_fixed(self.spec, self.recipes, self.words, self.fixed)

    @classmethod
    def about(
        cls,
        spec: ModelSpec,
        cluster: str | Cluster,
        gpus: int | Sequence[int] | None,
        seq: int,
        sequences: int,
        *,
        recipes: Sequence[str] = (),
        words: Mapping[str, Any] | None = None,
        launched: str | None = None,
        **more: Any,
    ) -> Question:
        """The question of what people say: a cluster by its name, one number of GPUs, or None for the most that it may
        have, the launcher's recipes where none are named, and words of which those that are None say nothing. more:
        other fields."""
        where = load_cluster(cluster) if isinstance(cluster, str) else cluster
        numbers = (where.most or MOST_GPUS) if gpus is None else gpus
        said = {name: word for name, word in (words or {}).items() if word is not None}
        return cls(
            spec=spec,
            cluster=where,
            gpus=(numbers,) if isinstance(numbers, int) else tuple(numbers),
            seq=seq,
            sequences=sequences,
            recipes=tuple(recipes) or launcher(launched or said.get("stack")).recipes,
            words=said,
            place=cluster if isinstance(cluster, str) else "",
            launched=launched,
            **more,
        )

    @property
    def device(self) -> Device:
        """The GPU of the cluster."""
        return load_device(self.cluster.gpu)

    @property
    def budget(self) -> int:
        """Bytes that PyTorch may reserve on one GPU."""
        return int(self.device.usable * (1 - self.headroom)) - CONTEXT

    def waits_on_host(self, words: Mapping[str, Any]) -> bool:
        """Whether plans of these words may have on the host what layers keep for backward: the stack does so beside
        what they recompute, and of all layers alike."""
        stack = Run(stack=self.words.get("stack")).stack
        if stack is not None:
            its = stack.activations_on_host
            if its is None or words["checkpointing"] not in its.checkpointing or words["recompute"]:
                return False
            if words["offload_layers"] is not None and not its.part:
                return False
        return words["checkpoint_every"] == 1

    @property
    def offloads(self) -> bool:
        """Whether plans are asked for that keep something on the host."""
        return self.fixed.get("offload", "none") != "none"

    def host_holds(self, bytes: Any, gpus: Any) -> Any:
        """Whether a machine's memory has room for so many bytes of each of its GPUs, of `gpus` in all; numbers or
        columns. Nothing on the host needs none."""
        room = self.cluster.host_room(gpus)
        return bytes == 0 if room is None else bytes <= room

    @property
    def tokens(self) -> int:
        """New tokens of a step."""
        return self.seq * self.sequences

    def of_shape(self, spec: ModelSpec, sizes: Mapping[str, int]) -> Question:
        """The same of a model that differs in these sizes, which its name then says; no other name stands for it."""
        if spec == self.spec:
            return self
        named = f"{self.spec.name} with {', '.join(f'{name} {size}' for name, size in sizes.items())}"
        return replace(self, spec=spec.model_copy(update={"name": named[:200]}), model="")

    @property
    def launcher(self) -> Launcher:
        """What may be launched. Errors: Refused for a stack of which nothing is written down."""
        return launcher(self.launched or self.words.get("stack"))

    def run_words(self) -> dict[str, Any]:
        """The words of every plan, as `calc.time.step.timed_run` takes them."""
        return {"phase": "training", "seq": self.seq, "cluster": self.cluster, **self.words}

    def allows(self, name: str, size: int) -> bool:
        """Whether a plan may have this size."""
        return size == self.fixed.get(name, size) and size <= self.at_most.get(name, size)


def sequences_of(tokens: int, seq: int) -> int:
    """Sequences of a step of about so many tokens: the nearest whole number, of two that are as near the larger.

    Errors: Refused for fewer than half of a sequence.
    """
    sequences = (2 * tokens + seq) // (2 * seq)
    if sequences < 1:
        raise Refused("--global-batch", f"at least one sequence of {seq:,} tokens", tokens)
    return sequences


def plan_words(run: Run) -> dict[str, Any]:
    """The plan of a run, as answers say it."""
    return {
        **{name: int(getattr(run, name)) for name in ("dp", "tp", "pp", "cp", "ep", "zero")},
        "expert_tp": run.expert_tp,
        "micro_batch": int(run.batch),
        "micro_batches": int(run.micro_batches_a_step),
        "schedule": run.schedule,
        "interleave": int(run.interleave),
        "stages": None if run.stages is None else list(run.stages),
        "checkpointing": run.checkpointing,
        "checkpoint_every": int(run.checkpoint_every),
        "recompute": list(run.recompute) or None,
        "sequence_parallel": bool(run.divides_sequence),
        "offload": run.offload,
        "offload_fraction": run.offload_fraction if run.offload == "optimizer" else None,
        "offload_layers": run.layers_on_host,
        "recipe": run.recipe,
    }


def short(run: Run) -> str:
    """A plan in a few words: dp 8, tp 4, pp 2, ZeRO 1, micro-batch 1 × 16, full checkpointing."""
    words = plan_words(run)
    parts = [f"{name}{words[name]}" for name in ("dp", "tp", "pp", "cp", "ep") if words[name] > 1]
    parts += [f"etp{words['expert_tp']}"] * (words["expert_tp"] is not None)
    parts += [f"zero{words['zero']}"] * bool(words["zero"])
    parts.append(f"{words['micro_batch']}×{words['micro_batches']}")
    parts += [f"v{words['interleave']}"] * (words["interleave"] > 1)
    parts += [f"stages {','.join(map(str, run.stages))}"] if run.stages is not None else []
    every = f"/{words['checkpoint_every']}" * (words["checkpoint_every"] > 1)
    parts += [f"{words['checkpointing']}{every}"] * (words["checkpointing"] != "none")
    parts += ["+".join(run.recompute)] * bool(run.recompute)
    part = f"/{words['offload_fraction']:g}" if words["offload_fraction"] not in (None, 1) else ""
    part += f"/{words['offload_layers']}" if words["offload_layers"] is not None else ""
    parts += [f"offload:{words['offload']}{part}"] * (words["offload"] != "none")
    parts += [words["schedule"]] * (words["schedule"] != "1f1b")
    parts += ["no-sp"] * (words["tp"] > 1 and not words["sequence_parallel"])
    return " ".join(parts)
