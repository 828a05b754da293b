"""What the lecture notes print, beside what comes out here, with a verdict on each (`calc.teaching.claim`)."""

from __future__ import annotations

import math
from collections.abc import Callable

from calc.architectures.models import load_model
from calc.ask.estimate import estimate
from calc.blocks.patches import grid
from calc.reading.files import parse_toml, read_text
from calc.spec import Patches
from calc.spec.catalogue import HARDWARE
from calc.spec.load import Load
from calc.teaching.claim import Claim
from calc.teaching.token_claims import TOKENS

FACTS = HARDWARE.parent / "published" / "gpu_time.toml"


def _params(model: str) -> Callable[[], float]:
    return lambda: estimate(load_model(model), "params").value


def _gpu_time(seconds: float) -> Callable[[], float]:
    """FLOP of a training of `seconds`, as `FACTS` gives Vaswani et al. 2017's machine: all GPUs, all the time."""

    def flop() -> float:
        machine = parse_toml(read_text(FACTS), FACTS.name)["vaswani"]
        return seconds * machine["devices"] * machine["sustained"]

    return flop


def _image_tokens(patch: int) -> Callable[[], float]:
    """Vectors that a ViT's front makes of a picture of 224 x 224 pixels, without a class token."""
    front = Patches(height=224, width=224, patch_height=patch, patch_width=patch)
    return lambda: math.prod(grid(front, Load(batch=1, seq=1)))


def _analysis(model: str, steps: int) -> Callable[[], float]:
    """The products of training: steps of 25,000 source and 25,000 target tokens (section 5.1), 25 a sentence."""
    return lambda: steps * estimate(load_model(model), "flops.training", batch=1000, seq=25).value


def _lora_share() -> float:
    """Rank 8 on queries and values of GPT-3: two matrices of rank * 2 * d_model in each of 96 layers."""
    gpt3 = load_model("gpt3-175b")
    return 2 * gpt3.n_layers * 8 * 2 * gpt3.d_model / estimate(gpt3, "params").value


_SAME_TRAINING = (
    "GPU-time multiplies the days by the peak; the products alone are fewer. Their ratio is the utilization that the "
    "estimate takes to be 1: about 0.3 for base and 0.4 for big"
)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        1,
        "GPT-3's d_model is 12k",
        "12,288 (Brown et al. 2020, table 2.1)",
        12e3,
        2,
        lambda: load_model("gpt3-175b").d_model,
    ),
    Claim(
        1,
        "Llama-8B's d_model is 4k",
        "4,096 (Grattafiori et al. 2024, table 3)",
        4e3,
        1,
        lambda: load_model("llama-3-8b").d_model,
    ),
    Claim(1, "a 224 px image is a sequence of 50k pixels", "224 * 224", 50e3, 1, _image_tokens(1)),
    Claim(
        1,
        "cut into patches of 16 px it is 196 tokens",
        "(224 / 16)^2, before the class token",
        196,
        3,
        _image_tokens(16),
    ),
    Claim(
        1,
        "a linear layer with A: <d_input, d_output> has a bias b: <d_input>",
        "the bias is added to the output: d_output values",
        stated="wrong",
    ),
    Claim(
        1,
        "attention returns z, the sum of the similarities times the values",
        "the weights must be the normalized a_i; the notes put the raw similarities into the sum",
        stated="wrong",
    ),
    Claim(
        1,
        "each product of the forward pass takes three in training, four with checkpointing",
        "so count `torch` and `full` checkpointing, but the head is not run again (`lecture` does run it)",
    ),
    Claim(
        1,
        "Transformer base cost 3.3e18 FLOP to train (GPU-time)",
        "12 hours * 8 P100 * 9.5 TFLOP/s",
        3.3e18,
        2,
        _gpu_time(12 * 3600),
    ),
    Claim(
        1,
        "Transformer big cost 2.3e19 FLOP to train (GPU-time)",
        "3.5 days * 8 P100 * 9.5 TFLOP/s",
        2.3e19,
        2,
        _gpu_time(3.5 * 86400),
    ),
    Claim(
        1,
        "those 3.3e18 FLOP are the products of training base",
        _SAME_TRAINING,
        3.3e18,
        2,
        _analysis("transformer-base", 100_000),
    ),
    Claim(
        1,
        "those 2.3e19 FLOP are the products of training big",
        _SAME_TRAINING,
        2.3e19,
        2,
        _analysis("transformer-big", 300_000),
    ),
    Claim(
        2,
        "a recurrent model needs as many steps as tokens, self-attention one",
        "`complexity`: steps n against 1, path n - 1 against 1",
    ),
    Claim(
        3,
        "BERT base has 110M parameters",
        "with its pooler, without the heads of pretraining",
        110e6,
        2,
        _params("bert-base"),
    ),
    Claim(
        3,
        "BERT large has 340M parameters",
        "with its pooler, without the heads of pretraining",
        340e6,
        2,
        _params("bert-large"),
    ),
    Claim(
        3,
        "relative positions: z_i sums x_j W^V - a_ij^V",
        "Shaw et al. 2018 (arXiv:1803.02155), equation 3, adds a_ij^V",
        stated="wrong",
    ),
    Claim(
        4,
        "LoRA and its like train less than 15 % of the parameters",
        "rank 8 on W_Q and W_V of GPT-3 is 0.02 %; the number here is that share",
        value=_lora_share,
    ),
    Claim(
        4,
        "FlashAttention reduces GPU <-> CPU memory trips",
        "the trips are between the GPU's own HBM and SRAM (Dao et al. 2022, arXiv:2205.14135)",
        stated="wrong",
    ),
    Claim(
        4,
        "FlashAttention's table: 66.6 and 75.2 GFLOPs",
        "the paper's setting (GPT-2 medium, batch 64, sequence 1,024) counts about 12 times as much",
        stated="not reproducible here",
    ),
    *TOKENS,
    Claim(
        5,
        "attention costs O(N D^2) for Q, K, V and O(N^2 D) for its products",
        "8 * N * D^2 and 4 * N^2 * D FLOPs with the output projection",
    ),
    Claim(
        5,
        "greedy search costs O(K N), beam search O(B K N), exhaustive search K^N",
        "`complexity` counts the continuations looked at",
    ),
)
