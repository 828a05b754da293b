"""The front of a model that reads trajectories of returns, states and actions in place of tokens."""

from __future__ import annotations

from typing import ClassVar, Literal

from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Trajectory(Node):
    """Three vectors for each step of an episode: return to go, state and action (Chen et al. 2021, section 3).

    One unit of `seq` is a step. d_state, d_action: numbers in a state and in an action; a return is one number.
    n_steps: rows of a learned table of steps in the episode, added to all three vectors of a step.
    n_positions, n_tokens: rows of the tables that GPT-2's stack brings along: position 0 is added to every vector, and
    no token is ever looked up. norm: on the vectors before the layers.
    """

    vectors: ClassVar[int] = 3
    """Vectors for each unit of `seq`."""

    kind: Literal["trajectory"] = "trajectory"
    d_state: Dim
    d_action: Dim
    n_steps: Dim
    n_positions: Dim | None = None
    n_tokens: Dim | None = None
    norm: Norm | None = Norm(kind="layernorm", bias=True)
