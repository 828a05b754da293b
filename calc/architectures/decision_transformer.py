"""Decision Transformer (Chen et al. 2021, arXiv:2106.01345): GPT-2's layers over returns, states and actions."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Norm, Projection, Trajectory


def spec(cfg: Config) -> ModelSpec:
    """Three vectors a step that predict what comes next: an action from a state, state and return from an action."""
    cfg.architecture({"DecisionTransformerModel": ""}, usual="DecisionTransformerModel")
    cfg.only("add_cross_attention", False, why="an encoder's keys and values are not described by this config")
    d_model, n_heads = cfg.size("hidden_size"), cfg.size("n_head", "num_attention_heads")
    cfg.multiple("hidden_size", d_model, "n_head", n_heads)
    d_state, d_action = cfg.size("state_dim"), cfg.size("act_dim")
    n_steps = cfg.size("max_ep_len", absent=4096)
    norm = Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_epsilon", absent=1e-5))
    layer = LayerGroup(
        count=cfg.layers("n_layer", "num_hidden_layers"),
        mixer=Attention(n_heads=n_heads, qkv_bias=True, out_bias=True, fused=True, position="none"),
        channel=Mlp(
            d_ff=cfg.size("n_inner", absent=None, null=None),
            bias=True,
            activation=activation(cfg, "activation_function", absent="relu"),
        ),
        norm=norm,
    )
    tanh = "tanh" if cfg.flag("action_tanh", absent=True) else None
    cfg.notes.append("--seq counts steps: three vectors (return, state, action) pass the layers for each")
    return ModelSpec(
        d_model=d_model,
        max_seq_len=n_steps,
        embedding=Trajectory(
            d_state=d_state,
            d_action=d_action,
            n_steps=n_steps,
            n_positions=cfg.size("n_positions", "max_position_embeddings", absent=1024),
            n_tokens=cfg.size("vocab_size", absent=1),
        ),
        layers=(layer,),
        final_norm=norm,
        heads=(
            Projection(name="predict_state", d_out=d_state, every=3, offset=2),
            Projection(name="predict_action", d_out=d_action, every=3, offset=1, activation=tanh),
            Projection(name="predict_return", d_out=1, every=3, offset=2),
        ),
        head=None,
    )
