"""`predict`: from a model, a device and a load to seconds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from calc.build import vectors_read
from calc.errors import Refused
from calc.memory.conditions import check
from calc.memory.plan import Plan
from calc.memory.precision import usual_optimizer
from calc.memory.sharding import Stage, stages
from calc.predict.beside import around, update
from calc.predict.kernel import DIRECTIONS, Direction, Kernel
from calc.predict.mfu import mfu
from calc.predict.network import Talk, talks
from calc.predict.notes import notes, of_memory
from calc.predict.operations import operations
from calc.predict.prediction import Prediction, Row, Stretch, combined, stretches
from calc.predict.priors import priors
from calc.predict.profile import Profile
from calc.predict.setting import Execution, Phase, Setting
from calc.predict.speed import Speed, speed_of
from calc.predict.timing import LEVEL, Answers, time_of
from calc.query import Checkpointing, common_context, common_length
from calc.spec import ModelSpec
from calc.spec.hardware import Device


def predict(
    spec: ModelSpec,
    where: Speed | Profile | Device | str,
    *,
    phase: Phase = "forward",
    batch: int = 1,
    seq: int | None = None,
    context: int | None = None,
    dtype: str | None = None,
    execution: Execution = "sdpa",
    checkpointing: Checkpointing = "none",
    plan: Plan | None = None,
    network: float | None = None,
    source_seq: int | None = None,
    images: int = 0,
    within: str = "",
    directions: Collection[Direction] | None = None,
    level: float = LEVEL,
) -> Prediction:
    """The seconds of one step of `spec` on a device, with an interval and all kernels it is made of.

    where: a profile, a device, or the name of one. phase: `forward` has logits at all positions, `prefill` of the last
    token, `decode` is one token with `context` cached, `training` a step of forward, loss, backward and optimizer.
    batch, seq: of one data-parallel rank, in training of its micro-batch; pictures have a length of their own.
    dtype: in training a recipe (default bf16-mixed), else the format of weights (bf16). execution, network,
    source_seq, images: as in `Setting`.
    plan: parallelism; its micro_batches are run one after the other. within: only ops below this path of the tree
    (`layers`), and then no loss and no optimizer. directions: only these kernels.
    Errors: Refused for unknown names, formats without a known speed, plans that do not fit the model or that cannot be
    predicted, and lengths that the model does not take.
    """
    training = phase == "training"
    plan = plan or Plan(optimizer=usual_optimizer(dtype))
    setting = Setting(
        phase=phase,
        batch=batch,
        seq=vectors_read(spec, common_length([spec]) if seq is None else seq),
        context=common_context([spec], seq) if context is None else context,
        dtype=("bf16-mixed" if training else "bf16") if dtype is None else dtype,
        execution=execution,
        checkpointing=checkpointing,
        plan=plan if training else _served(plan),
        network=network,
        source_seq=source_seq,
        images=images,
    )
    _possible(spec, setting)
    chosen = DIRECTIONS if directions is None else tuple(directions)
    speed = speed_of(where)
    found = _Step(spec, setting, speed, within, chosen, level).worst()
    return replace(found, notes=(*of_memory(spec, setting, speed), *found.notes))


def _served(plan: Plan) -> Plan:
    """`plan` in inference, where engines sum whole vectors and divide no stream unless they are told to."""
    return replace(plan, mode="inference", sequence_parallel=bool(plan.sequence_parallel))


def _possible(spec: ModelSpec, setting: Setting) -> None:
    """Errors: Refused for what no time is known of."""
    check(spec, setting.plan)
    if spec.adapter is not None:
        raise Refused("adapter", "none where a time is asked for", type(spec.adapter).__name__)
    if setting.phase in ("decode", "prefill") and spec.head is None:
        raise Refused("phase", "forward or training for a model that generates no tokens", setting.phase)
    if setting.plan.execution == "megatron":
        raise Refused("execution", "one whose kernels are known", "megatron")


class _Step:
    """One question on its way: kernels of every kind of pipeline stage, and the step of the slowest."""

    def __init__(
        self,
        spec: ModelSpec,
        setting: Setting,
        speed: Speed,
        within: str,
        directions: Sequence[Direction],
        level: float,
    ) -> None:
        self.spec, self.setting, self.speed, self.level = spec, setting, speed, level
        self.within, self.directions = within, directions
        self.known: Answers = {}

    def worst(self) -> Prediction:
        """The prediction for the stage that takes the longest, which the others wait for."""
        kinds = {(tuple(stage.layers.items()), stage.first, stage.last): stage for stage in self._stages()}
        return max((self._on(stage) for stage in kinds.values()), key=lambda found: found.seconds)

    def _stages(self) -> list[Stage]:
        return stages(self.spec, self.setting.plan)

    def _on(self, stage: Stage) -> Prediction:
        one = stage if self.setting.plan.pp > 1 else None
        ops = list(operations(self.spec, self.setting, one))
        passing = [kernel for kernel in around(ops, self.spec, self.setting) if self._wanted(kernel)]
        updates: list[Kernel] = []
        if self.setting.training and not self.within and "update" in self.directions:
            updates = list(update(self.spec, self.setting, stage))
        said = list(talks(self.spec, self.setting, stage)) if "network" in self.directions else []
        said = [talk for talk in said if not self.within or talk.kernel.path.startswith(self.within)]
        everything = [*passing, *updates, *(talk.kernel for talk in said)]
        if not everything:
            raise Refused("within", "a path of the tree", self.within or "nothing that runs")
        execution, network = self.setting.execution, self.setting.network
        timings = time_of(everything, self.speed, execution, self.level, network, self.known)
        n, m = len(passing), len(passing) + len(updates)
        run = stretches(passing, timings[:n], self.speed, execution)
        ends = stretches(updates, timings[n:m], self.speed, "eager" if execution == "graph" else execution)
        spoken = [(talk, talk.kernel.calls * time.seconds, time) for talk, time in zip(said, timings[m:], strict=True)]
        return self._summed(run, ends, [(t, Row(t.kernel, time, s, 0.0)) for t, s, time in spoken])

    def _wanted(self, kernel: Kernel) -> bool:
        inside = kernel.path == self.within or kernel.path.startswith(f"{self.within}.")
        return kernel.direction in self.directions and (not self.within or inside)

    def _summed(self, run: list[Stretch], ends: list[Stretch], said: list[tuple[Talk, Row]]) -> Prediction:
        """A step: its micro-batches one after the other, the pipeline's filling, what the network leaves open."""
        setting, plan = self.setting, self.setting.plan
        times = setting.micro_batches
        bubble = (plan.pp - 1) / plan.interleave
        talking = hidden(run, said, times)
        each = sum(part.seconds for part in run)
        each += sum(row.seconds - row.hidden for talk, row in talking if not talk.once)
        last = sum(part.seconds for part in ends) + sum(row.seconds - row.hidden for talk, row in talking if talk.once)
        fixed = self.speed.launch.step if self.speed.launch and setting.training and not self.within else 0.0
        plain = (times + bubble) * each + last + fixed
        seconds = plain * self._longer()
        rows = [_scaled(row, part, times) for part in run for row in part.rows]
        rows += [_scaled(row, part, 1) for part in ends for row in part.rows]
        rows += [_repeated(row, 1 if talk.once else times) for talk, row in talking]
        rows = [replace(row, share=max(row.seconds - row.hidden, 0.0) / seconds) for row in rows]
        extra = {"bubble": bubble * each, "host": fixed, "overhead": seconds - plain}
        return self._told(seconds, tuple(rows), {name: value for name, value in extra.items() if value > 0})

    def _longer(self) -> float:
        """How much longer steps of training are than their kernels, where that was not measured on the device."""
        guessed = not self.speed.steps and self.setting.training and not self.within
        return priors()["unmeasured"]["training" if self.setting.plan.gpus == 1 else "parallel"] if guessed else 1.0

    def _told(self, seconds: float, rows: tuple[Row, ...], extra: dict[str, float]) -> Prediction:
        setting, speed = self.setting, self.speed
        parts: dict[str, float] = {}
        for row in rows:
            parts[row.kernel.component] = parts.get(row.kernel.component, 0.0) + row.share * seconds
        share = None if self.within else mfu(self.spec, setting, speed, seconds)
        prediction = Prediction(
            model=self.spec.name,
            device=speed.name,
            phase=setting.phase,
            execution=setting.execution,
            seconds=seconds,
            tokens=setting.tokens,
            gpus=setting.plan.gpus,
            mfu=None if share is None else share.value,
            mfu_convention=None if share is None else share.convention,
            peak=None if share is None else share.peak,
            peak_source=None if share is None else share.peak_source,
            interval=combined(seconds, rows, speed, self.level),
            by_component=dict(sorted((parts | extra).items(), key=lambda item: -item[1])),
            kernels=rows,
            bound="memory",
            rests=speed.rests,
            source=speed.source,
            notes=notes(rows, speed, setting),
        )
        most = prediction.by_bound
        return replace(prediction, bound=max(most, key=lambda bound: most[bound]))


def hidden(run: list[Stretch], said: list[tuple[Talk, Row]], times: int) -> list[tuple[Talk, Row]]:
    """The collectives, with what of each runs while the kernels of a stretch do: at most the prior `overlap` of it."""
    left = {part.rows[0].kernel.direction: part.seconds for part in run if part.rows}
    left = {"forward": left.get("forward", 0.0), "backward": left.get("backward", left.get("recomputed", 0.0))}
    found = []
    for talk, row in said:
        room = 0.0 if talk.behind == "nothing" else left[talk.behind]
        behind = min(row.seconds * priors()["network"]["overlap"], room)
        if talk.behind != "nothing":
            left[talk.behind] = room - behind
        found.append((talk, replace(row, hidden=behind)))
    return found


def _scaled(row: Row, part: Stretch, times: int) -> Row:
    """A kernel's part of its stretch, times as many passes: where the host is slower, its part of the host's time."""
    if part.host > part.device:
        return replace(row, seconds=row.dispatch * times, dispatch=row.dispatch * times)
    return replace(row, seconds=row.seconds * times, dispatch=0.0)


def _repeated(row: Row, times: int) -> Row:
    return replace(row, seconds=row.seconds * times, hidden=row.hidden * times)
