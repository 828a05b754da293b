"""What a stage of a pipeline takes."""

from __future__ import annotations

from typing import NamedTuple


class StageTimes(NamedTuple):
    """Seconds of one micro-batch on a stage: forward, back to the input, and weights' gradients, all its pieces
    together; of what it sends on; and, once a step, of weights gathered before, gradients reduced behind, of which
    computing hides `hidden` seconds, and the optimizer. waiting: the part of forward and backward in which they wait
    for messages that nothing hides. copied: of a micro-batch's activations to the host beside forward, and as long back
    beside backward, which last no less."""

    forward: float
    backward: float
    weights: float = 0.0
    send: float = 0.0
    gather: float = 0.0
    reduce: float = 0.0
    hidden: float = 0.0
    optimizer: float = 0.0
    waiting: float = 0.0
    copied: float = 0.0

    @property
    def before(self) -> float:
        """When a stage can begin: its first weights gathered."""
        return self.gather - min(self.hidden, self.gather)

    def done(self, end: float) -> float:
        """When a stage has reduced its gradients and updated its weights, having run its last task at `end`."""
        behind = min(max(self.hidden - self.gather, 0.0), self.reduce)
        return end - behind + self.reduce + self.optimizer
