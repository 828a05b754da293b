"""What the lecture notes print, beside what comes out here, with a verdict on each.

A printed number is *confirmed* within 1 % of the value computed here, *rounded* where the value rounds to its digits
or is within 5 %, else *wrong*. A statement without a number carries its verdict with its argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from calc.estimation import estimate
from calc.models import load_model

Verdict = Literal["confirmed", "rounded", "wrong", "not reproducible here"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing the notes say.

    lecture: number of the file of notes. says: the claim. why: the formula, or the argument.
    printed, digits: its number and how many significant digits it has. value: what comes out here.
    stated: the verdict on a statement, or on a number that cannot be computed here.
    """

    lecture: int
    says: str
    why: str
    printed: float | None = None
    digits: int = 2
    value: Callable[[], float] | None = None
    stated: Verdict = "confirmed"

    @property
    def verdict(self) -> Verdict:
        """The judgement on this claim."""
        if self.value is None or self.printed is None:
            return self.stated
        value = self.value()
        off = abs(value / self.printed - 1)
        if off <= 0.01:
            return "confirmed"
        rounds = float(f"{value:.{self.digits - 1}e}") == self.printed
        return "rounded" if rounds or off <= 0.05 else "wrong"


def _params(model: str) -> Callable[[], float]:
    return lambda: estimate(load_model(model), "params").value


def _gpu_time(seconds: float) -> Callable[[], float]:
    """Vaswani et al. 2017, section 6.1 and footnote 5: 8 P100 at a sustained 9.5 TFLOP/s each, all the time."""
    return lambda: seconds * 8 * 9.5e12


def _analysis(model: str, steps: int) -> Callable[[], float]:
    """The products of training: steps of 25,000 source and 25,000 target tokens (section 5.1), 25 a sentence."""
    return lambda: steps * estimate(load_model(model), "flops.training", batch=1000, seq=25).value


def _lora_share() -> float:
    """Rank 8 on queries and values of GPT-3: two matrices of rank * 2 * d_model in each of 96 layers."""
    gpt3 = load_model("gpt3-175b")
    return 2 * gpt3.n_layers * 8 * 2 * gpt3.d_model / estimate(gpt3, "params").value


_COUNTED = "counted with OpenAI's vocabularies (encoder.json and vocab.bpe, cl100k_base.tiktoken)"
_TOKENS = (
    Claim(
        4,
        "the example of BPE is aaabdaaaabac, whose 'aa' counts 4",
        "that has five pairs 'aa'; the counts and the result XdXac are those of aaabdaaabac, as the ids print it",
        stated="wrong",
    ),
    Claim(
        4,
        "aaabdaaabac becomes XdXac, [29, 4, 29, 1, 3], less than half as long",
        "5 of 11; ties go to the lower ids, as `reference_models.tokenizer` trains it",
    ),
    Claim(
        4,
        "Unicode has 160K characters",
        "159,801 are assigned in Unicode 17.0 (September 2025)",
        160e3,
        2,
        lambda: 159_801.0,
    ),
    Claim(4, "G is the byte 71, ü the bytes 195 and 188", "UTF-8: 0x47, 0xC3 0xBC"),
    Claim(
        4,
        "GPT-2's pattern cuts 'tokeni' + 'zation'",
        f"the pattern leaves ' tokenization' whole; merging makes ' token' + 'ization' of it, {_COUNTED}",
        stated="wrong",
    ),
    Claim(
        4,
        "GPT-2's pattern does not ignore case: I'M is I + ' + M",
        "its contractions are in lower case (gpt-2, src/encoder.py, says so itself); GPT-4's are in either",
    ),
    Claim(4, "Python code: 32 tokens of GPT-2", f"{_COUNTED}, its last line break included", 32, 2, lambda: 32.0),
    Claim(4, "Python code: 20 tokens of GPT-4", f"{_COUNTED}", 20, 2, lambda: 20.0),
    Claim(
        4,
        "GPT-2 makes each space of code a token",
        "both patterns keep indentation together; GPT-2's vocabulary has no token of two spaces, GPT-4's has",
    ),
    Claim(4, "'Hello everyone, … 11-X85 class!': 15 tokens of GPT-2", _COUNTED, 15, 2, lambda: 14.0),
    Claim(4, "'Hello everyone, … 11-X85 class!': 15 tokens of GPT-4", _COUNTED, 15, 2, lambda: 15.0),
    Claim(4, "the same in Mandarin: 34 tokens of GPT-2", f"{_COUNTED}; 2.4 times the English", 34, 2, lambda: 34.0),
    Claim(
        4,
        "the same in Mandarin: 22 tokens of GPT-4",
        f"{_COUNTED}; the text printed for it is two characters longer than GPT-2's, which has 20",
        22,
        2,
        lambda: 22.0,
    ),
    Claim(
        4,
        "GPT-4 makes 19 + 99 of 1999",
        "digits are cut from the left in threes: 199 + 9 (cl100k_base's \\p{N}{1,3})",
        stated="wrong",
    ),
    Claim(
        4,
        "GPT-4 has 258 + 100K = 100,258 tokens, 2 of them special",
        "256 bytes, 100,000 merges and 5 special tokens, the last of them 100,276 (tiktoken, openai_public.py)",
        stated="wrong",
    ),
    Claim(
        4,
        "merging across the pattern's cuts fills the vocabulary with junk such as 'o w'",
        "trained without cuts, `reference_models.tokenizer` learns just that",
    ),
)
_SAME_TRAINING = (
    "GPU-time multiplies the days by the peak; the products alone are fewer. Their ratio is the utilization that the "
    "estimate takes to be 1: about 0.3 for base and 0.4 for big"
)
CLAIMS = (
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
    Claim(1, "a 224 px image is a sequence of 50k pixels", "224 * 224", 50e3, 1, lambda: 224.0 * 224),
    Claim(
        1,
        "cut into patches of 16 px it is 196 tokens",
        "(224 / 16)^2, before the class token",
        196,
        3,
        lambda: (224 / 16) ** 2,
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
    *_TOKENS,
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
