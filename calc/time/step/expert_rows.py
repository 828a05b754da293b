"""How many rows a prediction has ranks send one another around routed experts, and how many each expert compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from calc.spec.run import Run
from calc.time.cluster.stacks import stack_of
from calc.time.kernels.kernel import Send
from calc.time.step.messages import width_sent
from calc.time.step.prediction import Row


class ExpertRows(NamedTuple):
    """Of one kind of layer, by the name of its group. A row is what an expert reads of one token. ranks: that experts
    are spread over. sent_by_rank: to all of them, itself too, before experts run; as many come back after. once_a_rank:
    whether a token is sent once to a rank that has several of its experts. computed_by_rank, computed_by_expert: all
    ranks and all experts are taken to have as many."""

    layers: str
    ranks: int
    sent_by_rank: float
    once_a_rank: bool
    computed_by_rank: float
    computed_by_expert: float

    def sentence(self, routing: str) -> str:
        """The same in words. routing: how evenly tokens choose, of which the exchange takes no notice."""
        uneven = f", whatever {routing} says" if routing.startswith("power-law") else ""
        sent = f"{self.sent_by_rank:,.0f} rows" + " (a token once to a rank)" * self.once_a_rank
        computed = f"{self.computed_by_rank:,.0f}, {self.computed_by_expert:,.0f} an expert"
        return f"each of {self.ranks:,} ranks sends {sent} and computes {computed}: balanced, all have as many{uneven}"


def expert_rows(rows: Sequence[Row], run: Run) -> list[ExpertRows]:
    """What each kind of layer exchanges, of the kernels of a prediction; nothing where no rank sends another tokens."""
    experts = {row.kernel.place: one for row in rows if (one := row.kernel.routed) is not None}
    found = {}
    for kernel in (row.kernel for row in rows):
        shape, one = kernel.shape, experts.get(kernel.place)
        if kernel.between == "experts" and isinstance(shape, Send) and shape.op == "all_to_all" and one is not None:
            sent = float(kernel.bytes) / (one.hidden * width_sent(run))
            visits, once = one.tokens * one.top_k, stack_of(run).once_a_rank
            made = ExpertRows(kernel.place, int(shape.ranks), sent, once, visits / one.ep, visits / one.experts)
            found.setdefault(kernel.place, made)
    return list(found.values())
