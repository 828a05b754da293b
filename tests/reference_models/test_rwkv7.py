"""RWKV-7 against its paper (Peng et al. 2025, arXiv:2503.14456): the recurrence of section 4 written out in float64."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch import Tensor  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.parameters import parameters  # noqa: E402
from calc.spec import LayerGroup, Mlp, ModelSpec, Rwkv7  # noqa: E402
from harness.oracles import MODES  # noqa: E402
from reference_models import Model, build  # noqa: E402
from reference_models.blocks import rwkv7  # noqa: E402
from tests.architectures.cases_rwkv7 import SMALL  # noqa: E402
from tests.reference_models.test_counts import check  # noqa: E402
from tests.reference_models.test_recurrent import one_by_one, random  # noqa: E402

HEADS, WIDTH = 4, 6


def small() -> Model:
    """Weights far from their initial ones, in float64."""
    torch.manual_seed(0)
    model = build(from_config(SMALL)).double()
    for parameter in model.parameters():
        parameter.data.copy_(0.6 * torch.randn_like(parameter))
    return model


def layer_norm(x: Tensor, name: str, weights: dict[str, Tensor], eps: float = 1e-5) -> Tensor:
    centred = x - x.mean()
    scale = (centred.square().mean() + eps).sqrt()
    return centred / scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]


class Paper:
    """One token after another, equation by equation; vectors are rows, as in the paper."""

    def __init__(self, model: Model) -> None:
        self.weights = {name: p.detach() for name, p in model.named_parameters()}
        n = len(model.layers)
        zeros = torch.zeros(24, dtype=torch.float64)
        self.states = [torch.zeros(HEADS, WIDTH, WIDTH, dtype=torch.float64) for _ in range(n)]
        self.of_time, self.of_channel = [zeros] * n, [zeros] * n

    def token(self, number: int) -> Tensor:
        """The logits behind one more token."""
        x = layer_norm(self.weights["embedding.token.weight"][number], "embedding.norm", self.weights)
        first = None
        for i in range(len(self.states)):
            at = f"layers.{i}"
            read = layer_norm(x, f"{at}.rwkv7_norm", self.weights)
            out, first = self.time_mixing(read, i, first)
            x = x + out
            read = layer_norm(x, f"{at}.channel_norm", self.weights)
            x = x + self.channel_mixing(read, i)
        return layer_norm(x, "final_norm", self.weights) @ self.weights["lm_head.weight"].T

    def time_mixing(self, x: Tensor, i: int, first: Tensor | None) -> tuple[Tensor, Tensor]:
        """Section 4.1. first: the values of the first layer, None in that layer."""
        own = {k.removeprefix(f"layers.{i}.rwkv7."): v for k, v in self.weights.items() if f"layers.{i}.rwkv7." in k}
        r, w, k, v, a, g = (torch.lerp(x, self.of_time[i], own[f"mix_{each}"]) for each in "rwkvag")
        self.of_time[i] = x

        def bottleneck(name: str, y: Tensor, act: object = None) -> Tensor:
            inner = y @ own[f"{name}_down.weight"].T
            inner = inner if act is None else act(inner)
            return inner @ own[f"{name}_up.weight"].T + own.get(f"{name}_up.bias", 0.0)

        receptance, key, value = (y @ own[f"{n}_proj.weight"].T for n, y in (("r", r), ("k", k), ("v", v)))
        decay = torch.exp(-math.exp(-0.5) * torch.sigmoid(bottleneck("decay", w, torch.tanh)))
        rate = torch.sigmoid(bottleneck("rate", a))
        gate = bottleneck("gate", g, torch.sigmoid)
        if first is None:
            first = value
        else:
            value = torch.lerp(value, first, torch.sigmoid(bottleneck("value", v)))
        removed = (key * own["removal"].flatten()).view(HEADS, WIDTH)
        written = key * torch.lerp(torch.ones_like(rate), rate, own["replacement"].flatten())
        out = []
        for h in range(HEADS):
            part = slice(h * WIDTH, (h + 1) * WIDTH)
            kappa = F.normalize(removed[h], dim=-1)
            transition = torch.diag(decay[part]) - torch.outer(kappa, rate[part] * kappa)
            # wkv_t = wkv_{t-1} G_t + v_t' k_t, and what is read of it is r_t wkv_t'
            self.states[i][h] = self.states[i][h] @ transition + torch.outer(value[part], written[part])
            read = self.states[i][h] @ receptance[part]
            names = {"norm.weight": own["norm.weight"][h], "norm.bias": own["norm.bias"][h]}
            bonus = (receptance[part] * own["bonus"][h] * written[part]).sum()
            out.append(layer_norm(read, "norm", names, WIDTH * 1e-5) + bonus * value[part])
        return (gate * torch.cat(out)) @ own["o_proj.weight"].T, first

    def channel_mixing(self, x: Tensor, i: int) -> Tensor:
        """Section 4.2."""
        own = {k.removeprefix(f"layers.{i}.mlp."): v for k, v in self.weights.items() if f"layers.{i}.mlp." in k}
        mixed = torch.lerp(x, self.of_channel[i], own["mix"])
        self.of_channel[i] = x
        return torch.relu(mixed @ own["up_proj.weight"].T).square() @ own["down_proj.weight"].T


@torch.no_grad()
def test_same_logits_as_the_paper_says() -> None:
    """Several chunks and a rest, all at once and out of a cache."""
    model, tokens = small(), torch.randint(97, (1, 37))
    paper = Paper(model)
    expected = torch.stack([paper.token(int(number)) for number in tokens[0]])[None]
    torch.testing.assert_close(model(tokens).logits, expected, rtol=1e-9, atol=1e-9)
    for pieces in ([1] * 37, [20, 1, 16]):
        cache = model.new_cache()
        parts = [model(piece, cache=cache).logits for piece in tokens.split(pieces, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("checkpointing", MODES)
def test_counts(checkpointing: str) -> None:
    check(from_config(SMALL), checkpointing)


@pytest.mark.parametrize("chunk", [1, 4, 13, 20])
def test_chunks_are_the_recurrence(chunk: int) -> None:
    *others, state = random(*[(2, 3, 13, 5)] * 6, (2, 3, 5, 5))
    r, decay, k, v, a, b = others
    decay = -decay.sigmoid()

    def step(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        y, state = rwkv7.recur(*(x[:, :, 0] for x in inputs[:-1]), inputs[-1])
        return y[:, :, None], state

    expected = one_by_one(step, 13, r, decay, k, v, a, b, state=state)
    torch.testing.assert_close(rwkv7.chunked_rule(r, decay, k, v, a, b, chunk=chunk, state=state), expected)


def test_padding_in_front_changes_nothing() -> None:
    model, tokens = small(), torch.randint(97, (1, 6))
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), tokens], dim=1)
    keep = torch.tensor([[False] * 3 + [True] * 6])
    with torch.no_grad():
        torch.testing.assert_close(model(padded, keep=keep).logits[:, 3:], model(tokens).logits)


def test_gradients_are_the_same_when_layers_run_again() -> None:
    """The first layer lends its values to all others, whichever layer is computed again."""
    tokens, found = torch.randint(97, (2, 19)), []
    for mode in MODES:
        model = small()
        model(tokens, checkpointing=mode).logits.square().mean().backward()
        found.append({name: p.grad for name, p in model.named_parameters()})
    for other in found[1:]:
        for name, grad in found[0].items():
            torch.testing.assert_close(other[name], grad)


@pytest.mark.parametrize(
    ("d_model", "n_layers", "ranks"),
    [
        (768, 12, (64, 64, 32, 128)),
        (1024, 24, (64, 64, 32, 128)),
        (2048, 24, (96, 96, 64, 256)),
        (2560, 32, (96, 96, 64, 320)),
    ],
)
def test_parameters_are_those_of_the_papers_formula(d_model: int, n_layers: int, ranks: tuple[int, ...]) -> None:
    """2DV + 4D + LD(12D + 2(d_w + d_a + d_v + d_g) + 19) - (2 D d_v + D): no share of values in the first layer."""
    names = ("decay_low_rank_dim", "a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim")
    sizes = {"hidden_size": d_model, "num_hidden_layers": n_layers, "vocab_size": 65536}
    spec = from_config({"model_type": "rwkv7", **sizes, **dict(zip(names, ranks, strict=True))})
    of_layers = n_layers * d_model * (12 * d_model + 2 * sum(ranks) + 19)
    expected = 2 * d_model * 65536 + 4 * d_model + of_layers - (2 * d_model * ranks[2] + d_model)
    assert sum(parameters(spec).values()) == expected


def test_values_must_be_lent_by_a_layer_before() -> None:
    mixer = Rwkv7(n_heads=2, decay_rank=2, rate_rank=2, gate_rank=2, value_rank=2)
    with pytest.raises(ValueError, match="value_rank: expected a layer before it"):
        ModelSpec(d_model=8, vocab_size=9, layers=(LayerGroup(count=2, mixer=mixer, channel=Mlp(shift=True)),))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attn", {"layers": [1]}),
        ("value_dim", [24, 24, 48]),
        ("hidden_act", "relu"),
        ("norm_first", False),
        ("hidden_size", 25),
        ("decay_low_rank_dim", None),
    ],
)
def test_refused(key: str, value: object) -> None:
    with pytest.raises(Refused, match=key):
        from_config(SMALL | {key: value})
