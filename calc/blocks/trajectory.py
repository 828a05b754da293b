"""Trajectories in, vectors out: linear embeddings of return, state and action, and the table of time steps."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.linear import added, gather, linear, norm
from calc.load import Load
from calc.op import Part, Weight
from calc.sizes import Size
from calc.spec import Trajectory


def trajectory(spec: Trajectory, vocab_size: Size, d_model: Size, load: Load) -> tuple[Part, Size]:
    """Returns [batch, seq, 1], states [.., d_state], actions [.., d_action] -> [batch, 3 * seq, d_model].

    FLOPs 2 * batch * seq * d_model * (1 + d_state + d_action). Nothing before these products is trained.
    """
    body = [
        replace(linear(name, load.tokens, width, d_model, "embedding", bias=True), input_grad=False)
        for name, width in (("return", 1), ("state", spec.d_state), ("action", spec.d_action))
    ]
    tables = (("step", spec.n_steps), ("position", spec.n_positions), ("token", spec.n_tokens))
    for name, rows in tables:
        if rows is not None:
            weight = Weight(f"{name}.weight", (rows, d_model), "embedding" if name == "token" else "positional")
            body.append(gather(name, weight.component, (weight,), load.tokens, d_model))
    vectors = spec.vectors * load.tokens
    body.append(added("place_add", "positional", vectors, d_model, vectors * d_model))
    if spec.norm is not None:
        body.append(norm("norm", spec.norm, (d_model,), vectors))
    return Part("embedding", tuple(body)), spec.vectors * load.seq
