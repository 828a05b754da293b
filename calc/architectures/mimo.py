"""MiMo-7B (Xiaomi 2025, arXiv:2505.07608): Qwen2's dense model, with modules that predict further tokens."""

from __future__ import annotations

from calc.architectures import qwen2
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import mtp_modules
from calc.spec import Attention, Mlp, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in the checkpoints' MiMoConfig: Qwen2's, and no such modules. Each has a layer like the model's last.

    transformers has no class of this family; the checkpoints' own code builds the modules and does not run them.
    """
    made = qwen2.spec(cfg)
    last = made.layers[-1]
    assert isinstance(last.mixer, Attention)
    assert isinstance(last.channel, Mlp)
    return made.model_copy(update={"mtp": mtp_modules(cfg, last.mixer, last.channel, last.norm, absent=0)})
