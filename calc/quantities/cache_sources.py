"""Whose formula a cache's is: each kind of mixer keeps something of its own."""

from __future__ import annotations

from calc.spec import (
    Attention,
    DeltaNet,
    GatedConvolution,
    LinearAttention,
    Mamba,
    Mamba2,
    Mla,
    ModelSpec,
)
from calc.spec.compressed import CompressedAttention
from calc.spec.kda import Kda
from calc.spec.rg_lru import RgLru
from calc.spec.rwkv4 import Rwkv4
from calc.spec.rwkv7 import Rwkv7

SOURCES: tuple[tuple[type, str], ...] = (
    (Mla, "kv_rank + d_rope elements a token and layer (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1)"),
    (Attention, "2 * n_kv_heads * d_head elements a token and layer (Shazeer 2019, arXiv:1911.02150)"),
    (Mamba, "d_inner * d_state elements of state a layer (Gu & Dao 2023, arXiv:2312.00752, section 3)"),
    (Mamba2, "heads * d_head * d_state elements of state a layer (Dao & Gu 2024, arXiv:2405.21060, section 7)"),
    (DeltaNet, "heads * d_key * d_value elements of state a layer (Yang et al. 2024, arXiv:2412.06464)"),
    (Kda, "heads * d_key * d_value elements of state a layer (Kimi Team 2025, arXiv:2510.26692, section 3)"),
    (LinearAttention, "heads * d_head**2 elements of state a layer (Katharopoulos et al. 2020, arXiv:2006.16236)"),
    (RgLru, "d_lru elements of state a layer (De et al. 2024, arXiv:2402.19427, section 2.4)"),
    (Rwkv4, "3 * d_wkv elements of state a layer (Peng et al. 2023, arXiv:2305.13048, section 3)"),
    (Rwkv7, "heads * d_head**2 elements of state a layer (Peng et al. 2025, arXiv:2503.14456, section 4)"),
    (GatedConvolution, "the last inputs of each layer's convolution, whatever the length"),
    (CompressedAttention, "entries that stand for several tokens, and a window of tokens (DeepSeek-V4's own code)"),
)


KEEPS_NOTHING = "no layer keeps anything for later tokens"


def cache_source(spec: ModelSpec) -> str:
    """The source of each kind of cache that a model keeps, in the order of `SOURCES`."""
    nodes = [node for group in spec.layers for node in (*group.mixers, group.cross) if node is not None]
    nodes += [group.shared_block.attention for group in spec.layers if group.shared_block is not None]
    return "; ".join(text for kind, text in SOURCES if any(type(node) is kind for node in nodes)) or KEEPS_NOTHING
