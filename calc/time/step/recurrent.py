"""What the time of a recurrence's kernel depends on, from the ops that stand for it."""

from __future__ import annotations

from calc.quantities.chains import Chain
from calc.spec.run import Run
from calc.time.kernels.kernel import Recurrent


def recurrent(chain: Chain, run: Run) -> Recurrent | None:
    """The recurrence's kernel that ops are, or run within; None for all others. Of tensor-parallel ranks each has its
    heads, of context-parallel ones its tokens."""
    found = next((leaf.op.recurrence for leaf in chain if leaf.op.recurrence is not None), None)
    if found is None:
        return None
    return Recurrent(
        kind=found.kind,
        batch=run.batch,
        seq=float(run.new_tokens) / run.cp,
        heads=float(found.heads) / run.tp,
        key_heads=max(float(found.key_heads) / run.tp, 1.0),
        d_key=float(found.d_key),
        d_value=float(found.d_value),
        whole=found.whole,
    )
