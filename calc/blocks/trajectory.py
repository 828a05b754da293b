"""Trajectories in, vectors out: linear embeddings of return, state and action, and the table of time steps."""

from __future__ import annotations

from calc.blocks.front_output import FrontOutput
from calc.sizes import Size
from calc.spec import Trajectory
from calc.spec.load import Load
from calc.trace.trace import Trace


def trajectory(t: Trace, spec: Trajectory, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Returns [batch, seq, 1], states [.., d_state], actions [.., d_action] -> [batch * 3 * seq, d_model].

    FLOPs 2 * batch * seq * d_model * (1 + d_state + d_action). The three lie in one tensor, which needs no gradient;
    the row of a step is added to all three of its vectors. No token is ever looked up, and one position only.
    """
    widths = {"return": 1, "state": spec.d_state, "action": spec.d_action}
    given = t.constant(load.tokens, 1 + spec.d_state + spec.d_action)
    three = [t.linear(name, given.columns(width), d_model, bias=True, inside=False) for name, width in widths.items()]
    step = t.weight("step.weight", spec.n_steps, d_model, of="positional")
    when = t.gather("step", (step,), load.seq, d_model, of="positional")
    x = t.joined(*three, rows=spec.vectors * load.tokens, width=d_model)
    x = t.add("place_add", x, when, of="positional")
    if spec.norm is not None:
        x = t.norm("norm", spec.norm, x)
    if spec.n_positions is not None:
        table = t.weight("position.weight", spec.n_positions, d_model, of="positional")
        x = t.add("position_add", x, t.parameters("position", (table,), 1, d_model, of="positional"), of="positional")
    if spec.n_tokens is not None:
        t.parameters("token", (t.weight("token.weight", spec.n_tokens, d_model, of="embedding"),), 0, d_model)
    return FrontOutput(x, spec.vectors * load.seq)
