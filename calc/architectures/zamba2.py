"""Zamba2 (Zyphra 2024, arXiv:2411.15242): Mamba-2 layers, and ahead of some one of a few shared transformer blocks."""

from __future__ import annotations

from calc.architectures.common import activation, kv_heads, stack
from calc.architectures.config import Config
from calc.architectures.llama import decoder, rms_norm
from calc.architectures.mamba2 import summed
from calc.architectures.rope import rope
from calc.spec import Attention, LayerGroup, Lora, Mamba2, Mlp, ModelSpec, Norm, SharedBlock

_WORDS = {"mamba": "mamba", "linear_attention": "mamba", "hybrid": "hybrid"}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Zamba2Config, but `layers_block_type` must be there. Hybrid layers take the shared
    blocks in turns."""
    cfg.only("tie_word_embeddings", True, why="implementations differ in what an untied model shares else")
    cfg.only("use_long_context", False, why="its rescaled angles are not described")
    words = cfg.words("layers_block_type", "layer_types", among=tuple(_WORDS), length=cfg.layers("num_hidden_layers"))
    n_blocks = cfg.size("num_mem_blocks", absent=1)
    kinds, hybrids = [], 0
    for word in words:
        kinds.append(f"hybrid{hybrids % n_blocks}" if _WORDS[word] == "hybrid" else "mamba")
        hybrids += _WORDS[word] == "hybrid"
    norm, mixer = rms_norm(cfg, 1e-5), _mamba2(cfg)

    def layer(kind: str) -> LayerGroup:
        block = _shared(cfg, int(kind.removeprefix("hybrid"))) if kind != "mamba" else None
        return LayerGroup(count=1, mixer=mixer, shared_block=block, norm=norm)

    return decoder(cfg, stack(kinds, layer), max_seq_len=4096, tied=True, norm=norm)


def _mamba2(cfg: Config) -> Mamba2:
    """Step sizes have a lower end only; the convolution has a bias whatever use_conv_bias says, the norm an epsilon of
    its own."""
    channels = cfg.size("mamba_expand", absent=2) * cfg.size("hidden_size")
    n_heads = cfg.size("n_mamba_heads", absent=8)
    d_head = cfg.multiple("mamba_expand * hidden_size", channels, "n_mamba_heads", n_heads)
    cfg.only("mamba_headdim", d_head, why="mamba_expand * hidden_size / n_mamba_heads")
    cfg.only("use_conv_bias", True, why="the convolution always has one")
    cfg.only("time_step_limit", None, why="step sizes are cut by time_step_min alone")
    return Mamba2(
        n_heads=n_heads,
        d_head=d_head,
        d_state=summed(cfg, "mamba_d_state", absent=64),
        n_groups=cfg.size("mamba_ngroups", absent=1),
        d_conv=cfg.size("mamba_d_conv", absent=4),
        chunk=summed(cfg, "chunk_size", absent=256),
        bias=cfg.flag("add_bias_linear", absent=False),
        norm=Norm(),
        dt_min=cfg.number("time_step_min", absent=0.001),
    )


def _shared(cfg: Config, number: int) -> SharedBlock:
    """Attention over vectors twice as wide as the model, its scale that of heads half as wide."""
    d_model, n_heads = cfg.size("hidden_size"), cfg.size("num_attention_heads")
    d_head = cfg.multiple("2 * hidden_size", 2 * d_model, "num_attention_heads", n_heads)
    cfg.only("attention_head_dim", d_head, why="2 * hidden_size / num_attention_heads")
    cfg.only("attention_hidden_size", 2 * d_model, why="2 * hidden_size")
    rotary = cfg.flag("use_mem_rope", absent=False)
    adapted = cfg.flag("use_shared_attention_adapter", absent=False)
    attention = Attention(
        n_heads=n_heads,
        n_kv_heads=kv_heads(cfg, n_heads, absent=None, null=None),
        d_head=d_head,
        position="rope" if rotary else "none",
        rope=rope(cfg),
        scale=(d_head / 2) ** -0.5,
    )
    mlp = Mlp(
        d_ff=cfg.size("intermediate_size", absent=4 * d_model, null=4 * d_model),
        gated=True,
        fused=True,
        bias=cfg.flag("add_bias_linear", absent=False),
        activation=activation(cfg, "hidden_act", absent="gelu"),
    )
    targets = ("gate_up_proj", *(("q_proj", "k_proj", "v_proj") if adapted else ()))
    adapter = Lora(rank=cfg.size("adapter_rank", absent=128), targets=targets)
    return SharedBlock(attention=attention, mlp=mlp, adapter=adapter, number=number)
