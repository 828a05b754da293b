"""What torch.distributed.pipelining holds between the stages of a pipeline.

Source: PyTorch 2.13, torch/distributed/pipelining/stage.py and schedules.py. A stage makes, before its first step, a
tensor for every micro-batch of a step to receive into, one for each gradient that comes back (`args_recv_info`,
`grad_recv_info`, the same for every schedule), and never lets them go; the first piece of the model receives no
activations and the last one no gradients. What its first layer keeps of its input is the tensor received. Its result
stays until the micro-batch has gone back (`fwd_cache`), so of the last piece the logits. Each way a message keeps its
tensor: a gradient until the next one has been made (`bwd_sends`), and under 1F1B the result whose sending is waited for
only at the step's end (`send_work`).

Not counted: logits of earlier micro-batches, which `step` keeps and joins unless it is given return_outputs=False
(torchtitan 0.3.0 gives that, 0.2.0 does not); further messages that a backend has not let go; and under a zero-bubble
schedule, whose order here is another than PyTorch's, what one half of going back keeps for the other.
"""

from __future__ import annotations

from calc.memory.rank import Between
from calc.memory.sharding import Stage, in_a_round
from calc.sizes import Size, at_least, either, is_array, is_exactly, minimum
from calc.spec.run import Run


def pipelined_by_torch(run: Run) -> bool:
    """Whether stages are those of torch.distributed.pipelining: of its stacks, and where no stack is named, but under
    DualPipe, which it does not have."""
    return run.torch_pipeline and not is_exactly(run.pp, 1) and run.schedule != "dualpipe"


def between_stages(run: Run, stage: Stage, vector: Size, kept: Size, logits: Size) -> tuple[Between, Size]:
    """(what is held, what must be taken from what layers keep, since it lies in buffers or is there already).

    vector: bytes of what one stage gives the next of a micro-batch, on a rank. kept: whether layers keep their inputs.
    logits: bytes of the last stage's result where the loss does not keep it.
    Of a stage that is neither first nor last each piece in flight has an input in a buffer and a result beside it.
    """
    n, pieces = run.micro_batches_a_step, stage.chunks
    pipeline = at_least(run.pp, 2)
    received, back = (n * (pieces - either(end, 1, 0)) for end in (stage.first, stage.last))
    on_the_way = 2 - either(stage.first, 1, 0) - either(stage.last, 1, 0)
    buffers = pipeline * vector * (received + back + on_the_way)
    head = _at_the_front(run, stage)
    first, last = either(stage.first, head, 0), either(stage.last, _at_the_end(stage), 0)
    in_buffers = either(kept, stage.held - first, 0)
    # Results of pieces but the model's last; of those but its first, in the place of an input that lies in a buffer.
    results = stage.held - last
    lies_there = pipeline * vector * (in_buffers - (results - first))
    each = pipeline * vector * (1 - either(stage.last, _one(stage.chunks) * 1, 0))
    return Between(buffers, each, pipeline * vector * first, pipeline * logits), lies_there


def _at_the_front(run: Run, stage: Stage) -> Size:
    """Of the pieces that the first stage holds, the most that are the model's first: all that it has, or of interleaved
    ones two rounds, of which one has gone forward while the other has not come back."""
    rounds = minimum(stage.held, minimum(run.micro_batches_a_step, 2 * in_a_round(run)))
    return either(_one(stage.chunks), stage.held, rounds)


def _at_the_end(stage: Stage) -> Size:
    """Of the pieces that the last stage holds, the fewest that are the model's last: interleaved, it goes back with
    each at once."""
    return either(_one(stage.chunks), stage.held, 0)


def _one(pieces: Size) -> Size:
    return pieces == 1 if is_array(pieces) else is_exactly(pieces, 1)
