"""Decision Transformer (Chen et al. 2021, arXiv:2106.01345): GPT-2's layers over returns, states and actions."""

from __future__ import annotations

from calc.architectures.common import layer_norm
from calc.architectures.config import Config
from calc.architectures.gpt2 import gpt2_attention, gpt_layers, gpt_mlp
from calc.spec import ModelSpec, Projection, Trajectory


def spec(cfg: Config) -> ModelSpec:
    """Three vectors a step that predict what comes next: an action from a state, state and return from an action."""
    cfg.architecture({"DecisionTransformerModel": ""}, usual="DecisionTransformerModel")
    d_state, d_action = cfg.size("state_dim"), cfg.size("act_dim")
    n_steps = cfg.size("max_ep_len", absent=4096)
    norm = layer_norm(cfg)
    layers = gpt_layers(cfg, norm, gpt2_attention(cfg, "hidden_size", softmax="model"), gpt_mlp(cfg, "relu"))
    tanh = "tanh" if cfg.flag("action_tanh", absent=True) else None
    cfg.notes.append("--seq counts steps: three vectors (return, state, action) pass the layers for each")
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        max_seq_len=n_steps,
        embedding=Trajectory(
            d_state=d_state,
            d_action=d_action,
            n_steps=n_steps,
            n_positions=cfg.size("n_positions", absent=1024),
            n_tokens=cfg.size("vocab_size", absent=1),
        ),
        **layers,
        final_norm=norm,
        heads=(
            Projection(name="predict_state", d_out=d_state, every=3, offset=2),
            Projection(name="predict_action", d_out=d_action, every=3, offset=1, activation=tanh),
            Projection(name="predict_return", d_out=1, every=3, offset=2),
        ),
        head=None,
    )
