"""`predict`: from a model, a device and a load to seconds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from calc.errors import Refused
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
from calc.predict.speed import Speed, speed_of
from calc.predict.timed_run import timed_run
from calc.predict.timing import LEVEL, Answers, time_of
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import Run


def predict(
    spec: ModelSpec,
    where: Speed | Profile | Device | str,
    run: Run | None = None,
    *,
    within: str = "",
    directions: Collection[Direction] | None = None,
    level: float = LEVEL,
    **words: Any,
) -> Prediction:
    """The seconds of one step of `spec` on a device, with an interval and all kernels it is made of.

    where: a profile, a device, or the name of one. run, words: what runs, as a Run or by its fields, of which
    `timed_run` fills in what is not said. batch is of one data-parallel rank, in training of one of its micro-batches,
    which are run one after the other. within: only ops below this path of the tree (`layers`), and then no loss and no
    optimizer. directions: only these kernels.
    Errors: Refused for unknown words, formats without a known speed, runs that do not fit the model or that cannot be
    predicted, and lengths that the model does not take.
    """
    run = timed_run(spec, run, **words)
    chosen = DIRECTIONS if directions is None else tuple(directions)
    speed = speed_of(where)
    found = _Step(spec, run, speed, within, chosen, level).worst()
    return replace(found, notes=(*of_memory(spec, run, speed), *found.notes))


class _Step:
    """One question on its way: kernels of every kind of pipeline stage, and the step of the slowest."""

    def __init__(
        self,
        spec: ModelSpec,
        run: Run,
        speed: Speed,
        within: str,
        directions: Sequence[Direction],
        level: float,
    ) -> None:
        self.spec, self.run, self.speed, self.level = spec, run, speed, level
        self.within, self.directions = within, directions
        self.known: Answers = {}

    def worst(self) -> Prediction:
        """The prediction for the stage that takes the longest, which the others wait for."""
        kinds = {(tuple(stage.layers.items()), stage.first, stage.last): stage for stage in self._stages()}
        return max((self._on(stage) for stage in kinds.values()), key=lambda found: found.seconds)

    def _stages(self) -> list[Stage]:
        return stages(self.spec, self.run)

    def _on(self, stage: Stage) -> Prediction:
        one = stage if self.run.pp > 1 else None
        ops = list(operations(self.spec, self.run, one))
        passing = [kernel for kernel in around(ops, self.spec, self.run) if self._wanted(kernel)]
        updates: list[Kernel] = []
        if self.run.trains and not self.within and "update" in self.directions:
            updates = list(update(self.spec, self.run, stage))
        said = list(talks(self.spec, self.run, stage)) if "network" in self.directions else []
        said = [talk for talk in said if not self.within or talk.kernel.path.startswith(self.within)]
        everything = [*passing, *updates, *(talk.kernel for talk in said)]
        if not everything:
            raise Refused("within", "a path of the tree", self.within or "nothing that runs")
        execution, network = self.run.execution or "sdpa", self.run.network
        timings = time_of(everything, self.speed, execution, self.level, network, self.known)
        n, m = len(passing), len(passing) + len(updates)
        parts = stretches(passing, timings[:n], self.speed, execution)
        ends = stretches(updates, timings[n:m], self.speed, "eager" if execution == "graph" else execution)
        spoken = [(talk, talk.kernel.calls * time.seconds, time) for talk, time in zip(said, timings[m:], strict=True)]
        return self._summed(parts, ends, [(t, Row(t.kernel, time, s, 0.0)) for t, s, time in spoken])

    def _wanted(self, kernel: Kernel) -> bool:
        inside = kernel.path == self.within or kernel.path.startswith(f"{self.within}.")
        return kernel.direction in self.directions and (not self.within or inside)

    def _summed(self, passing: list[Stretch], ends: list[Stretch], said: list[tuple[Talk, Row]]) -> Prediction:
        """A step: its micro-batches one after the other, the pipeline's filling, what the network leaves open."""
        asked, times = self.run, self.run.passes_a_step
        bubble = (asked.pp - 1) / asked.interleave
        talking = hidden(passing, said, times)
        each = sum(part.seconds for part in passing)
        each += sum(row.seconds - row.hidden for talk, row in talking if not talk.once)
        last = sum(part.seconds for part in ends) + sum(row.seconds - row.hidden for talk, row in talking if talk.once)
        fixed = self.speed.launch.step if self.speed.launch and asked.trains and not self.within else 0.0
        plain = (times + bubble) * each + last + fixed
        seconds = plain * self._longer()
        rows = [_scaled(row, part, times) for part in passing for row in part.rows]
        rows += [_scaled(row, part, 1) for part in ends for row in part.rows]
        rows += [_repeated(row, 1 if talk.once else times) for talk, row in talking]
        rows = [replace(row, share=max(row.seconds - row.hidden, 0.0) / seconds) for row in rows]
        extra = {"bubble": bubble * each, "host": fixed, "overhead": seconds - plain}
        return self._told(seconds, tuple(rows), {name: value for name, value in extra.items() if value > 0})

    def _longer(self) -> float:
        """How much longer steps of training are than their kernels, where that was not measured on the device."""
        guessed = not self.speed.steps and self.run.trains and not self.within
        return priors()["unmeasured"]["training" if self.run.gpus == 1 else "parallel"] if guessed else 1.0

    def _told(self, seconds: float, rows: tuple[Row, ...], extra: dict[str, float]) -> Prediction:
        run, speed = self.run, self.speed
        parts: dict[str, float] = {}
        for row in rows:
            parts[row.kernel.component] = parts.get(row.kernel.component, 0.0) + row.share * seconds
        share = None if self.within else mfu(self.spec, run, speed, seconds)
        prediction = Prediction(
            model=self.spec.name,
            device=speed.name,
            phase=run.phase,
            execution=run.execution or "sdpa",
            seconds=seconds,
            tokens=run.step_tokens,
            gpus=run.gpus,
            run=run,
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
            notes=notes(rows, speed, run),
        )
        most = prediction.by_bound
        return replace(prediction, bound=max(most, key=lambda bound: most[bound]))


def hidden(passing: list[Stretch], said: list[tuple[Talk, Row]], times: int) -> list[tuple[Talk, Row]]:
    """The collectives, with what of each runs while the kernels of a stretch do: at most the prior `overlap` of it."""
    left = {part.rows[0].kernel.direction: part.seconds for part in passing if part.rows}
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
