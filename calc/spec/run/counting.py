"""How the answer about a run is counted."""

from __future__ import annotations

from pydantic import Field

from calc.spec.run.node import RunNode


class Counting(RunNode):
    """convention: a name of `calc.conventions`, looked up where it is used. rank: the kind of rank whose terms
    `memory.total` is made of, where symbols do not tell which one holds the most."""

    convention: str = Field(default="torch", description="How FLOPs are counted; `conventions` lists them.")
    rank: str | None = Field(default=None, description="The kind of rank whose memory is told.")
