"""What a reader of a prediction should know of how far to trust it."""

from __future__ import annotations

from collections.abc import Sequence

from calc.memory.between_stages import pipelined_by_torch
from calc.memory.phases import PhaseMemory
from calc.spec.run import Run
from calc.time.device.datasheet import in_tiles, is_tpu
from calc.time.device.priors import priors
from calc.time.device.speed import Speed
from calc.time.kernels.choice import by_deepep, has_link
from calc.time.kernels.kernel import Send
from calc.time.step.prediction import Row
from calc.units import binary

RELATIVE = "fitted on a device of the same architecture, moved by datasheet figures; intervals are widened"
DATASHEET = (
    "no measurement on this device: datasheet figures times typical efficiencies; of published times, tokens "
    "were met with a median error of 5 to 12 %, training steps of 3 to 17 % (docs/prediction-measured.md)"
)
OFFLOAD = (
    "the step on the host rests on one published system, which reached a quarter of its memory's bandwidth; torchrun "
    "gives each process one thread unless OMP_NUM_THREADS says more"
)
ACTIVATIONS = (
    "copies of activations reach {:.0%} of the link to the host and pass beside computing, each tensor once: no "
    "published time of a step says how near that is (torch.autograd.graph.save_on_cpu copies what several operations "
    "keep for each of them, and waits)"
)
LAYERS_WAIT = (
    "copies of activations reach {:.0%} of the link to the host, and layers wait for them, so that no more are on the "
    "GPU than stay: where one stays no copy is hidden, which Transformer Engine warns of; no published time of a step "
    "says how near that is"
)
BETWEEN_STAGES = (
    "memory takes torch.distributed.pipelining's step to have return_outputs=False: else the last stage keeps the "
    "logits of all micro-batches; of two published peaks what is counted is 13 and 18 % short (docs/memory.md)"
)
GRAPHS = (
    "memory leaves out what CUDA graphs hold, of which it is published that it is a few GB, and over 10 with a pipeline"
)
DEEPEP = "experts' tokens take what DeepEP's throughput kernels were measured to, within one node"
ALL_TO_ALL = "experts' tokens take what an all-to-all of their ranks does"
CHECKED = 512
"""GPUs up to which intervals were held against at least 30 steps that no constant saw (docs/prediction-measured.md)."""
TPU = (
    "no measurement on TPUs: a roofline at parts of the datasheet's figures, by judgement; XLA compiles whole "
    "programs, which --execution compiled comes nearest to"
)
PARTS = (
    "no measurement on this device, and its cores are not known: a roofline at parts of the datasheet's figures, by "
    "judgement"
)


def of_memory(found: PhaseMemory) -> tuple[str, ...]:
    """Whether it does not fit, or cannot be told to; and whether the prompts of a decode must be read in pieces."""
    if found.fits is False:
        return (found.sentence(),)
    if found.fits and found.prompts is not None and found.budget is not None and found.prompts > found.budget:
        what = f"reading all prompts in one pass takes {binary(found.prompts)}"
        return (f"fits where prompts are read in pieces: {what} (`memory --batched-tokens`)",)
    return ()


def _datasheet(speed: Speed) -> str:
    if speed.device is None or in_tiles(speed.device):
        return DATASHEET
    return TPU if is_tpu(speed.device) else PARTS


def _kernel(row: Row, speed: Speed) -> str:
    """What ran where the device's attention was measured, if that was not PyTorch's own kernel."""
    table = speed.decode if row.kernel.decode else speed.attention
    source = getattr(table.get(row.kernel.dtype), "kernel_source", "")
    return "" if "sdpa" in source else source


def notes(rows: Sequence[Row], speed: Speed, run: Run) -> tuple[str, ...]:
    """One sentence each; rows: every kernel of the prediction."""
    found = []
    if run.mtp and run.phase != "decode":
        what = "keep for backward" if run.trains else "hold: their weights, cache and what is live in them"
        found.append(f"memory leaves out what modules that predict further tokens {what}")
    if run.trains and run.usual_graphs != "none":
        found.append(GRAPHS)
    if run.trains and pipelined_by_torch(run):
        found.append(BETWEEN_STAGES)
    if run.trains and run.gpus > CHECKED:
        found.append(f"beyond {CHECKED} GPUs too few published steps are left to check the interval against")
    if speed.basis == "datasheet":
        found.append(_datasheet(speed))
    elif speed.basis == "relative":
        found.append(RELATIVE)
    guessed = sum(row.share for row in rows if row.timing.source == "prior")
    if speed.basis != "datasheet" and guessed > 0.01:
        names = sorted({row.kernel.function for row in rows if row.timing.source == "prior" and row.share > 0.001})
        found.append(f"{guessed:.0%} of the time rests on priors, for want of measurements: {', '.join(names)}")
    if run.offloaded:
        found.append(OFFLOAD)
    if run.offload == "activations" and run.trains:
        said = LAYERS_WAIT if run.waits_for_host else ACTIVATIONS
        found.append(said.format(priors()["host_copies"]["bandwidth"]))
    if any(row.kernel.function == "softmax" for row in rows) and run.execution != "eager":
        found.append("scores in the open where PyTorch's attention kernel does not take them (caps, sinks, biases)")
    others = {_kernel(row, speed) for row in rows if row.kernel.function == "attention" and row.share > 0.01} - {""}
    if others and not run.trains:
        found.append(f"attention takes as long as in {min(others)}; `attention` tells of PyTorch's own kernels")
    if any(row.kernel.direction == "network" and row.hidden > 0 for row in rows):
        found.append("collectives overlap with computing as far as it lasts, where the stack lets them")
    exchanged = [
        shape for row in rows if isinstance(shape := row.kernel.shape, Send) and row.kernel.between == "experts"
    ]
    if run.trains and any(shape.op == "all_to_all" for shape in exchanged):
        found.append(DEEPEP if any(by_deepep(shape, speed) for shape in exchanged) else ALL_TO_ALL)
    sent = {row.kernel.function for row in rows if row.kernel.direction == "network"}
    if any(not has_link(speed, op) for op in sent):
        found.append(f"nothing is known of a link between GPUs of {speed.name}: within a node too they use --network")
    return tuple(found)
