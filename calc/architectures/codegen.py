"""CodeGen (arXiv:2203.13474): GPT-J's layer with one matrix for q, k and v."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.gpt2 import heads
from calc.architectures.gptj import gptj
from calc.spec import ModelSpec

PARTS = 4
"""Parts of equal width in which that matrix stands in the checkpoint, each with its share of q, v and k."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' CodeGenConfig, which are GPT-J's."""
    cfg.multiple("n_head", heads(cfg), "the parts of the matrix for q, k and v", PARTS)
    return gptj(cfg, fused=True)
