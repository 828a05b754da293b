"""XGLM (arXiv:2112.10668): BioGPT's layers, and sinusoids for positions."""

from __future__ import annotations

from calc.architectures.biogpt import POSITION_OFFSET, fairseq_decoder
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import Embedding, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' XGLMConfig. The sinusoid of the padding token's number, which is zero there, stands
    before the first position in all published models."""
    cfg.only("add_cross_attention", False, why="an encoder's keys and values are not described by this config")
    return fairseq_decoder(
        cfg,
        d_model=cfg.size("d_model"),
        n_layers=cfg.layers("num_layers"),
        n_heads=cfg.size("attention_heads"),
        d_ff=cfg.size("ffn_dim"),
        activation=activation(cfg, "activation_function", absent="gelu"),
        max_seq_len=cfg.size("max_position_embeddings", absent=2048),
        embedding=Embedding(sinusoidal=True, sinusoid="halves", position_offset=POSITION_OFFSET),
    )
