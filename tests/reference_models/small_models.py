"""Small models of many kinds, and batches for them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from calc.architectures import from_config  # noqa: E402
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Moe, Projection  # noqa: E402
from reference_models import Model, build  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402

VOCAB, START, SEPARATOR, MASK = 97, 1, 2, 3


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def family(model_type: str, name: str, **more: Any) -> Model:
    torch.manual_seed(0)
    config = {"model_type": model_type, "architectures": [name]}
    return build(from_config(TEXT[model_type][0] | config | more))


def decoder(causal: bool = True, channel: Mlp | Moe | None = None, **more: Any) -> Model:
    torch.manual_seed(0)
    group = LayerGroup(count=2, mixer=Attention(n_heads=4, causal=causal), channel=channel or Mlp(d_ff=48))
    return build(ModelSpec(d_model=32, vocab_size=VOCAB, layers=(group,), **more))


def speech() -> Model:
    """It hears numbers of sounds, one a frame, and spells with 7 letters and a blank."""
    return decoder(causal=False, head=None, heads=(Projection(name="ctc", d_out=8),))


def tokens(batch: int = 4, seq: int = 20) -> torch.Tensor:
    return torch.randint(5, VOCAB, (batch, seq), generator=rng())


def padding(batch: int = 4, seq: int = 20) -> torch.Tensor:
    """keep: sequence i has 3 * i tokens of padding behind it."""
    return torch.arange(seq) < seq - 3 * torch.arange(batch)[:, None]


def log_softmax(logits: torch.Tensor) -> torch.Tensor:
    return logits - logits.exp().sum(-1, keepdim=True).log()


def episodes() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(rewards, states, actions) of three episodes of ten steps."""
    rewards, states, actions = (torch.randn(3, 10, width, generator=rng(width)) for width in (1, 7, 3))
    return rewards[..., 0], states, actions.tanh()
