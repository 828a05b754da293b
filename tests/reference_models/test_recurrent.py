"""Mixers with a state in place of keys and values: counts to the integer, and the same results however they are run."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pydantic import ValidationError  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.spec import (  # noqa: E402
    Attention,
    Branch,
    DeltaNet,
    GatedConvolution,
    Kda,
    LayerGroup,
    LinearAttention,
    Lora,
    Mamba,
    Mamba2,
    Mlp,
    ModelSpec,
    Node,
    Norm,
    Parallel,
    RgLru,
    Rwkv4,
    SharedBlock,
)
from harness.oracles import MODES  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.blocks import delta_net, kda, linear_attention, mamba, mamba2  # noqa: E402
from tests.architectures.cases_recurrent import RECURRENT  # noqa: E402
from tests.reference_models.test_counts import check  # noqa: E402
from tests.reference_models.weights import copy_weights  # noqa: E402
from tests.strategies import channels, norms, recurrent  # noqa: E402

MIXERS: dict[str, Node] = {
    "mamba": Mamba(d_inner=20, d_state=5, dt_rank=3),
    "mamba with norms": Mamba(d_state=5, inner_norm=Norm(), bias=True, conv_bias=False),
    "mamba2": Mamba2(n_heads=4, d_head=6, d_state=5, n_groups=2, chunk=4),
    "attention beside mamba2": Parallel(
        branches=(
            Branch(mixer=Attention(n_heads=4, n_kv_heads=2), scale_in=0.7),
            Branch(mixer=Mamba2(n_heads=4, d_head=6, d_state=5, norm=None, chunk=4), scale_out=1.3),
        )
    ),
    "delta net": DeltaNet(n_key_heads=2, n_value_heads=4, d_key=6, d_value=5, chunk=4),
    "fused delta net": DeltaNet(n_key_heads=2, n_value_heads=4, d_key=6, d_value=5, chunk=4, fused=True),
    "kimi delta attention": Kda(n_heads=3, d_head=5, chunk=4),
    "kimi delta attention token by token": Kda(n_heads=2, d_head=5, d_conv=1, chunk=1),
    "fading mean": Rwkv4(d_inner=10),
    "gated recurrence": RgLru(d_inner=12, n_blocks=3, d_conv=3),
    "gated recurrence of tokens alone": RgLru(d_inner=6, n_blocks=6, d_conv=1, activation="silu"),
    "gated convolution": GatedConvolution(d_conv=3, bias=True),
    "linear": LinearAttention(n_heads=4, chunk=4),
    "lightning": LinearAttention(
        n_heads=4, d_head=6, fused=True, feature_map="silu", decay=True, norm=Norm(), gate=True, chunk=4
    ),
}
each_mixer = pytest.mark.parametrize("mixer", MIXERS.values(), ids=MIXERS)


def test_branches_of_one_kind_are_refused() -> None:
    """Both would have the same names of weights."""
    one = Branch(mixer=Attention(n_heads=4))
    with pytest.raises(ValidationError, match="branches: expected mixers of different kinds"):
        Parallel(branches=(one, one))


def of(mixer: Node, **more: object) -> ModelSpec:
    """A small model of three layers."""
    return ModelSpec(d_model=16, vocab_size=31, layers=(LayerGroup(count=3, mixer=mixer),), **more)


@settings(max_examples=10, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 4]), st.sampled_from(MODES))
def test_counts(data: st.DataObject, n_heads: int, checkpointing: str) -> None:
    mixer, channel, norm = (data.draw(one) for one in (recurrent(n_heads), channels(), norms()))
    group = LayerGroup(count=2, mixer=mixer, channel=channel, norm=norm)
    check(ModelSpec(d_model=24, vocab_size=31, layers=(group,)), checkpointing)


def test_updates_of_matrices_that_are_not_there_are_refused() -> None:
    attention, mlp = Attention(n_heads=2, d_head=8), Mlp(d_ff=8, gated=True, fused=True)
    with pytest.raises(ValidationError, match=r"adapter.targets: expected among .*gate_up_proj.*found up_proj"):
        SharedBlock(attention=attention, mlp=mlp, adapter=Lora(rank=2, targets=("q_proj", "up_proj")))


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["falcon_h1", "kimi_linear", "bailing_hybrid", "zamba2"])
@pytest.mark.parametrize("checkpointing", MODES)
def test_counts_of_a_family(model_type: str, checkpointing: str) -> None:
    """Chunks of Kimi delta attention are cut short: the rows of each are inverted one by one."""
    spec = from_config({"model_type": model_type, **RECURRENT[model_type][1]})
    short = {g.name: g.mixer.model_copy(update={"chunk": 4}) for g in spec.layers if isinstance(g.mixer, Kda)}
    layers = tuple(g.model_copy(update={"mixer": short.get(g.name, g.mixer)}) for g in spec.layers)
    check(spec.model_copy(update={"layers": layers}), checkpointing)


@each_mixer
def test_decoding_is_the_parallel_pass(mixer: Node) -> None:
    """Eleven tokens at once, one by one, and five, four and two of them: the same logits."""
    torch.manual_seed(0)
    model, tokens = build(of(mixer)).double(), torch.randint(31, (2, 11))
    with torch.no_grad():
        whole = model(tokens).logits
        for pieces in ([1] * 11, [5, 4, 2], [3] + [1] * 8):
            cache = model.new_cache()
            parts = [model(piece, cache=cache).logits for piece in tokens.split(pieces, dim=1)]
            torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-4, atol=1e-5)


@each_mixer
def test_padding_in_front_changes_nothing(mixer: Node) -> None:
    torch.manual_seed(0)
    model, tokens = build(of(mixer)), torch.randint(31, (1, 6))
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), tokens], dim=1)
    keep = torch.tensor([[False] * 3 + [True] * 6])
    with torch.no_grad():
        found = model(padded, keep=keep).logits[:, 3:]
        torch.testing.assert_close(found, model(tokens).logits, rtol=1e-4, atol=1e-4)


@each_mixer
def test_no_token_sees_what_comes_later(mixer: Node) -> None:
    torch.manual_seed(0)
    model, tokens = build(of(mixer)), torch.randint(31, (1, 9))
    other = tokens.clone()
    other[:, 6:] = (other[:, 6:] + 1) % 31
    with torch.no_grad():
        first, second = model(tokens).logits, model(other).logits
    torch.testing.assert_close(first[:, :6], second[:, :6], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(first[:, 6:], second[:, 6:])


def random(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def one_by_one(step, seq: int, *inputs: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Results of `step`, which takes a token's inputs and a state, for all tokens in order."""
    found = []
    for t in range(seq):
        y, state = step(*(x[:, :, t : t + 1] for x in inputs), state)
        found.append(y)
    return torch.cat(found, dim=2), state


def sequential_scan(
    x: torch.Tensor, dt: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> torch.Tensor:
    """The scan as it is written in Mamba's paper, one token after another."""
    state, found = x.new_zeros(x.shape[0], *a.shape), []
    for t in range(x.shape[1]):
        state = (dt[:, t, :, None] * a).exp() * state + (dt[:, t] * x[:, t])[..., None] * b[:, t, None, :]
        found.append((state @ c[:, t, :, None]).squeeze(-1))
    return torch.stack(found, dim=1)


def test_scan_is_the_recurrence() -> None:
    x, dt, a, b, c = random((2, 13, 7), (2, 13, 7), (7, 5), (2, 13, 5), (2, 13, 5))
    arguments = (x, dt.exp(), -a.exp(), b, c)
    torch.testing.assert_close(mamba.scan(*arguments, state=None)[0], sequential_scan(*arguments))


@pytest.mark.parametrize("chunk", [1, 4, 13, 20])
def test_chunks_are_the_recurrence(chunk: int) -> None:
    rows = (2, 3, 13)
    q, k, v, decay, rate, state = random((*rows, 5), (*rows, 5), (*rows, 6), rows, rows, (2, 3, 5, 6))
    decay, k = -decay.exp(), k / k.norm(dim=-1, keepdim=True)
    rates = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64)

    def delta(q, k, v, decay, rate, state):
        q, k, v, decay, rate = (x[:, :, 0] for x in (q, k, v, decay, rate))
        y, state = delta_net.recur(q, k, v, decay.view(*rate.shape, -1), rate, state)
        return y[:, :, None], state

    expected = one_by_one(delta, 13, q, k, v, decay, rate.sigmoid(), state=state)
    torch.testing.assert_close(
        delta_net.chunked_rule(q, k, v, decay, rate.sigmoid(), chunk=chunk, state=state), expected
    )
    channels = -torch.randn(*rows, 5, dtype=torch.float64).exp()
    expected = one_by_one(delta, 13, q, k, v, channels, rate.sigmoid(), state=state)
    found = kda.chunked_rule(q, k, v, channels, rate.sigmoid(), chunk=chunk, state=state)
    torch.testing.assert_close(found, expected)
    expected = one_by_one(mamba2.recur, 13, v, decay, k, q, state=state.mT)
    torch.testing.assert_close(mamba2.chunked_scan(v, decay, k, q, chunk=chunk, state=state.mT), expected)
    expected = one_by_one(lambda q, k, v, s: linear_attention.recur(q, k, v, rates, s), 13, q, k, v, state=state)
    torch.testing.assert_close(linear_attention.chunked(q, k, v, rates=rates, chunk=chunk, state=state), expected)


def test_linear_attention_is_the_weighted_mean() -> None:
    """Katharopoulos et al. 2020, equation 8, written out with all pairs; to both sides and in order."""
    torch.manual_seed(0)
    for causal in (False, True):
        layer = linear_attention.KernelAttention(LinearAttention(n_heads=4, causal=causal, chunk=3), 16)
        x = torch.randn(2, 7, 16)
        q, k, v = layer._features(x, step := mamba.Step(torch.arange(7)[None]))
        weights = q @ k.mT
        weights = weights.tril() if causal else weights
        mean = (weights / weights.sum(-1, keepdim=True)) @ v
        torch.testing.assert_close(layer(x, step), layer.o_proj(mean.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize(
    ("model_type", "config"),
    [(name, config) for name, configs in RECURRENT.items() for config in configs if "text_config" not in config],
)
@torch.no_grad()
def test_same_logits_as_transformers(model_type: str, config: dict[str, Any]) -> None:
    """Several chunks and a rest, with weights far from their initial ones."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    tokens = {"pad_token_id": None, "bos_token_id": 1, "eos_token_id": 1}
    parsed = transformers.AutoConfig.for_model(model_type, **(tokens | config))
    theirs = transformers.AutoModelForCausalLM.from_config(parsed, attn_implementation="eager").eval()
    for parameter in theirs.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    ours = build(from_config({"model_type": model_type, **config}))
    copy_weights(theirs, ours, model_type)
    tokens = torch.randint(97, (2, 70))
    torch.testing.assert_close(ours(tokens).logits, theirs(tokens, use_cache=False).logits, rtol=1e-3, atol=1e-3)
