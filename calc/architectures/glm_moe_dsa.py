"""GLM-5 (Zhipu 2026): DeepSeek-V3.2's attention, where some layers reuse the tokens that an earlier one has chosen."""

from __future__ import annotations

from calc.architectures.common import mlp_kinds
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import dense_then_moe, expert_groups, latent_decoder, routed_experts
from calc.architectures.deepseek_v32 import indexed_attention
from calc.errors import Refused
from calc.spec import ModelSpec

KINDS = {"full": True, "shared": False, "F": True, "S": False}
"""A word of indexer_types, or a letter of index_topk_pattern -> whether the layer has an indexer of its own."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GlmMoeDsaConfig: an indexer of 32 heads, 128 wide, in every layer."""
    n_layers = cfg.layers("num_hidden_layers")
    mixer = indexed_attention(cfg, n_heads=32, interleaved=True)
    reusing = mixer.model_copy(update={"indexer": None})
    mixers = [mixer if own else reusing for own in has_indexer(cfg, n_layers)]
    kinds = mlp_kinds(cfg, dense_then_moe(cfg, n_layers, first=3))
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg), scale=2.5)
    return latent_decoder(cfg, mixer, kinds, experts, max_seq_len=202752, eps=1e-5, mixers=mixers)


def has_indexer(cfg: Config, n_layers: int) -> list[bool]:
    """`own_indexers`, of which the first layer must be one."""
    found = own_indexers(cfg, n_layers)
    if not found[0]:
        raise Refused(f"{cfg.where}indexer_types", "an indexer in the first layer, which others reuse", "none")
    return found


def own_indexers(cfg: Config, n_layers: int) -> list[bool]:
    """For each layer: what indexer_types says, else index_topk_pattern, else every index_topk_freq-th one after the
    first index_skip_topk_offset (1 and 2 where the keys are absent: all)."""
    own = cfg.words("indexer_types", among=("full", "shared"), length=n_layers, absent=None, null=None)
    pattern = cfg.raw.get("index_topk_pattern")
    if own is None and pattern is not None:
        own = pattern
        if not isinstance(pattern, str | list) or len(pattern) < n_layers or not all(each in KINDS for each in pattern):
            raise Refused(f"{cfg.where}index_topk_pattern", f"F or S for each of {n_layers} layers", pattern)
    if own is not None:
        return [KINDS[each] for each in own][:n_layers]
    period = max(cfg.count("index_topk_freq", absent=1), 1)
    offset = cfg.count("index_skip_topk_offset", absent=2)
    return [max(i - offset + 1, 0) % period == 0 for i in range(n_layers)]
