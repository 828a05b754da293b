"""Each convention reproduces figures that its owner published. The digits printed are the tolerance."""

from __future__ import annotations

import pytest

from calc.conventions import flops, params
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from calc.spec.run import Run
from tests.conventions.shapes import LLAMA_3, PALM_540B, gpt, gpt_oss_20b, train


def per_token(spec: ModelSpec, convention: str, seq: int, checkpointing: str = "none") -> float:
    return flops(spec, train(convention, seq, checkpointing=checkpointing)).total / seq


def significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")


def test_palm_540b_utilization() -> None:
    """PaLM, table 3 and section 4.1: 540.35B parameters, 238.3K tokens/s on 6,144 TPU v4 of 275 TFLOP/s, 46.2 %."""
    assert sum(parameters(PALM_540B).values()) / 1e9 == pytest.approx(540.35, abs=0.01)
    utilization = per_token(PALM_540B, "palm", 2048) * 238.3e3 / (6144 * 275e12)
    assert round(100 * utilization, 1) == 46.2


# Kaplan et al., legends of figures 4 and 9; 768 and 1.5B from section 1.2.
@pytest.mark.parametrize(
    ("d_model", "n_layers", "printed", "digits"),
    [
        (8, 1, 768, 3),
        (128, 2, 393.2e3, 4),
        (256, 4, 3e6, 1),
        (512, 8, 25e6, 2),
        (768, 12, 85e6, 2),
        (1024, 24, 302e6, 3),
        (1280, 36, 708e6, 3),
        (1600, 48, 1.5e9, 2),
    ],
)
def test_kaplan_model_sizes(d_model: int, n_layers: int, printed: float, digits: int) -> None:
    spec = gpt(d_model, n_layers, 1 if d_model % 64 else d_model // 64, 50257, max_seq_len=1024)
    n = sum((params(spec, "kaplan") or {}).values())
    assert significant(n, digits) == printed
    assert per_token(spec, "kaplan", 1024) == 6 * n


def test_kaplan_compute_of_gpt_3() -> None:
    """Brown et al. 2020, table D.1: 6 FLOPs a parameter and token, 300B tokens, 3.14e23 FLOP.

    That table's 174.6B parameters include the embeddings, 0.4 % more than Kaplan's N.
    """
    gpt_3 = gpt(12288, 96, 96, 50257)
    assert per_token(gpt_3, "kaplan", 2048) * 300e9 == pytest.approx(3.14e23, rel=0.005)
    assert significant(per_token(gpt_3, "chinchilla-6nd", 2048) * 300e9, 3) == 3.14e23


# Hoffmann et al., table A4: d_model, n_layers, n_heads, d_head, and its FLOPs as a multiple of 6 N D.
TABLE_A4 = [
    (640, 10, 10, 64, 1.03),
    (1024, 20, 16, 64, 1.10),
    (1280, 24, 10, 128, 1.08),
    (1792, 26, 14, 128, 1.04),
    (2048, 28, 16, 128, 1.03),
    (3584, 40, 28, 128, 0.99),
]


@pytest.mark.parametrize(("d_model", "n_layers", "n_heads", "d_head", "printed"), TABLE_A4)
def test_chinchilla_table_a4(d_model: int, n_layers: int, n_heads: int, d_head: int, printed: float) -> None:
    """The ratio of the paper's two countings. Its N also holds Transformer-XL's relative-position weights."""
    spec = gpt(d_model, n_layers, n_heads, 32000, d_head=d_head, position="none")
    relative_positions = 6 * n_layers * (d_model * n_heads * d_head + 2 * n_heads * d_head)
    six_n_d = per_token(spec, "chinchilla-6nd", 2048) + relative_positions
    assert round(per_token(spec, "chinchilla", 2048) / six_n_d, 2) == printed


# Hoffmann et al., table 3: parameters, FLOPs, tokens; the rows whose tokens are printed to three digits or more.
@pytest.mark.parametrize(
    ("params", "compute", "tokens"),
    [(1e9, 1.21e20, 20.2e9), (10e9, 1.23e22, 205.1e9), (520e9, 3.43e25, 11.0e12), (1e12, 1.27e26, 21.2e12)],
)
def test_chinchilla_table_3(params: float, compute: float, tokens: float) -> None:
    spec = gpt(1024, 24, 16, 32000)
    factor = per_token(spec, "chinchilla-6nd", 2048) / sum(parameters(spec).values())
    assert significant(factor * params * tokens, 3) == compute


# Narayanan et al., table 2: GPU count, achieved TFLOP/s each, days for 300B tokens; full recomputation.
@pytest.mark.parametrize(
    ("spec", "gpus", "teraflops", "days"),
    [
        (gpt(12288, 96, 96), 384, 153, 84),
        (gpt(12288, 96, 96), 768, 149, 43),
        (gpt(12288, 96, 96), 1536, 141, 23),
        (gpt(20480, 105, 128), 560, 171, 156),
        (gpt(20480, 105, 128), 1120, 167, 80),
        (gpt(20480, 105, 128), 2240, 159, 42),
    ],
)
def test_megatron_days_for_300b_tokens(spec: ModelSpec, gpus: int, teraflops: int, days: int) -> None:
    total = per_token(spec, "megatron", 2048, "full") * 300e9
    fastest, slowest = (total / (gpus * rate * 1e12 * 86400) for rate in (teraflops + 0.5, teraflops - 0.5))
    assert fastest <= days + 0.5
    assert slowest >= days - 0.5


# Korthikanti et al., table 5: batch, GPUs (A100, 312 TFLOP/s), seconds an iteration, model and hardware utilization.
@pytest.mark.parametrize(
    ("spec", "batch", "gpus", "seconds", "model", "hardware"),
    [
        (gpt(6144, 48, 64), 4, 8, 1.10, 41.5, 43.7),
        (gpt(20480, 105, 128), 280, 280, 37.83, 56.0, 57.0),
    ],
)
def test_megatron_selective_utilization(
    spec: ModelSpec, batch: int, gpus: int, seconds: float, model: float, hardware: float
) -> None:
    for checkpointing, printed in (("none", model), ("selective", hardware)):
        total = flops(spec, train("megatron", 2048, batch=batch, checkpointing=checkpointing)).total
        most, least = (100 * total / (gpus * 312e12 * (seconds + off)) for off in (-0.005, 0.005))
        assert least <= printed + 0.05
        assert most >= printed - 0.05


# DeepSeek LLM, table 3: n_layers, d_model, M, with 4,096 tokens.
@pytest.mark.parametrize(
    ("n_layers", "d_model", "printed"),
    [
        (8, 512, 352e6),
        (12, 768, 963e6),
        (24, 1024, 3.02e9),
        (24, 2048, 9.66e9),
        (32, 4096, 45.1e9),
        (40, 5120, 85.6e9),
        (80, 8192, 419e9),
    ],
)
def test_deepseek_model_scale(n_layers: int, d_model: int, printed: float) -> None:
    spec = gpt(d_model, n_layers, d_model // 64, 102400)
    assert significant(per_token(spec, "deepseek", 4096), 3) == printed


def test_torchtitan_gpt_oss() -> None:
    """Pull request 4300: 24,141,260,160 FLOPs a token of gpt-oss-20b at 4,096 tokens."""
    assert flops(gpt_oss_20b(), train("torchtitan", 4096)).total == 24_141_260_160 * 4096


@pytest.mark.parametrize(("tokens_per_s", "utilization"), [(177, 23.46), (185, 24.52)])
def test_torchtitan_405b_utilization(tokens_per_s: int, utilization: float) -> None:
    """docs/performance.md of 2024, Llama 3.1 405B on H100 with Float8, peak 1,979 TFLOP/s."""
    rate = per_token(LLAMA_3["405B"], "torchtitan", 8192) / 1979e12
    assert 100 * rate * (tokens_per_s - 0.5) <= utilization <= 100 * rate * (tokens_per_s + 0.5)


def test_torchtitan_8b_utilization() -> None:
    """docs/performance.md: Llama 3.1 8B in bf16, 5,605 to 6,667 tokens/s on H100 of 989 TFLOP/s, 33 % to 39 %."""
    rate = per_token(LLAMA_3["8B"], "torchtitan", 8192) / 989e12
    assert [round(100 * rate * speed) for speed in (5605, 6667)] == [33, 39]


def test_lecture_piece_by_piece() -> None:
    """The lecture's own lines, FLOPs per token: embedding, unembedding, feed-forward, KQVO and mechanism."""
    d, layers, vocab, n = 12288, 96, 50257, 2048
    spec = gpt(d, layers, 96, vocab)
    layer = 2 * 2 * d * (4 * d) + 2 * 4 * (d * d) + 2 * 2 * n * d
    forward = flops(spec, Run(seq=n, convention="lecture"))
    assert forward.total == n * (d + layers * layer + 2 * d * vocab)
    assert forward.other == n * d
    trained = flops(spec, train("lecture", n))
    assert trained.total == n * d + 3 * n * (layers * layer + 2 * d * vocab)
    again = flops(spec, train("lecture", n, checkpointing="full"))
    assert again.total == n * d + 4 * n * (layers * layer + 2 * d * vocab)
    decode = flops(spec, Run(context=n - 1, phase="decode", convention="lecture"))
    assert decode.total * n == forward.total
    assert params(spec, "lecture") == {
        "embedding": vocab * d,
        "unembedding": vocab * d,
        "attention": layers * 4 * (d * d),
        "feed-forward": layers * 2 * d * (4 * d),
    }
