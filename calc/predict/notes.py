"""What a reader of a prediction should know of how far to trust it."""

from __future__ import annotations

from collections.abc import Sequence

from calc.estimation import estimate
from calc.predict.datasheet import is_tpu
from calc.predict.prediction import Row
from calc.predict.setting import Setting
from calc.predict.speed import Speed
from calc.spec import ModelSpec
from calc.units import binary

RELATIVE = "fitted on a device of the same architecture, moved by datasheet figures; intervals are widened"
DATASHEET = (
    "no measurement on this device: datasheet figures times typical efficiencies; of published times, tokens "
    "were met with a median error of 5 to 12 %, training steps of 9 to 13 % (docs/prediction.md)"
)
TPU = (
    "no measurement on TPUs: a roofline at parts of the datasheet's figures, by judgement; XLA compiles whole "
    "programs, which --execution compiled comes nearest to"
)


def of_memory(spec: ModelSpec, setting: Setting, speed: Speed) -> tuple[str, ...]:
    """Whether weights alone are more than a device holds, in training at two bytes each; `memory` knows the rest.

    Nothing is said of plans that spread experts.
    """
    plan = setting.plan
    if speed.device is None or plan.ep != 1:
        return ()
    ranks = plan.tp * plan.pp * (plan.dp * plan.cp if plan.zero == 3 else 1)
    held = estimate(spec, "weights", dtype="bf16" if setting.training else setting.dtype).value / ranks
    room = speed.device.usable
    if held <= room:
        return ()
    return (f"does not fit: weights alone take {binary(held)} of {binary(room)}; see `python -m calc memory`",)


def notes(rows: Sequence[Row], speed: Speed, setting: Setting) -> tuple[str, ...]:
    """One sentence each; rows: every kernel of the prediction."""
    found = []
    if speed.rests == "datasheet":
        found.append(TPU if speed.device is not None and is_tpu(speed.device) else DATASHEET)
    elif speed.rests == "relative":
        found.append(RELATIVE)
    guessed = sum(row.share for row in rows if row.timing.source == "prior")
    if speed.rests != "datasheet" and guessed > 0.01:
        names = sorted({row.kernel.function for row in rows if row.timing.source == "prior" and row.share > 0.001})
        found.append(f"{guessed:.0%} of the time rests on priors, for want of measurements: {', '.join(names)}")
    if any(row.kernel.function == "softmax" for row in rows) and setting.execution != "eager":
        found.append("scores in the open where PyTorch's attention kernel does not take them (caps, sinks, biases)")
    if any(row.kernel.direction == "network" and row.hidden > 0 for row in rows):
        found.append("data-parallel collectives overlap with computing as far as it lasts; all others wait")
    return tuple(found)
