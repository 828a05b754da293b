"""The cases of each suite, at sizes fit for the machine: tiny on a CPU, real models on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from harness.cases.attention import AttentionCase, DecodeAttentionCase
from harness.cases.attention_suite import attention
from harness.cases.case import Case
from harness.cases.decoding import DecodeCase
from harness.cases.layer import LayerCase
from harness.cases.matmul import MatmulCase
from harness.cases.passes import FUNCTIONS, ONE_WAY, PassCase
from harness.cases.survey_suite import survey
from harness.cases.training import TrainingCase
from harness.cases.whole_passes import ForwardCase, PrefillCase
from harness.record import Environment

Dtype = Literal["fp32", "bf16"]
TINY = ("tiny-gpt", "tiny-llama", "tiny-gqa", "tiny-mqa", "tiny-mla", "tiny-moe")
"""Models that go on token by token, one of each kind of attention and channel mixer."""
OTHERS = ("tiny-bert", "tiny-translator", "tiny-vit")


def quick(environment: Environment) -> list[Case]:
    """A little of everything, small enough to end within two minutes on two CPU cores; the most telling cases first."""
    fp32: Any = {"dtype": "fp32"}
    return [
        TrainingCase("tiny-gpt", 64, 2, "fp32"),
        ForwardCase("tiny-gpt", 64, 2, "fp32"),
        MatmulCase(512, 512, 512, **fp32),
        AttentionCase("sdpa_flash", 256, 4, 64, **fp32),
        DecodeCase("tiny-gqa", 128, 2, "fp32"),
        PassCase("copy", 2**18, "fp32"),
        PassCase("layernorm", 2**18, "fp32"),
        PassCase("softmax", 2**18, "fp32"),
        MatmulCase(512, 512, 512, dtype="bf16"),
        AttentionCase("reference", 256, 4, 64, **fp32),
        AttentionCase("sdpa_flash", 256, 4, 64, direction="backward", **fp32),
        DecodeAttentionCase("sdpa_flash", 512, 8, 64, kv_heads=2, **fp32),
        TrainingCase("tiny-llama", 64, 2, "bf16"),
        PrefillCase("tiny-gqa", 64, 2, "fp32"),
        LayerCase("tiny-gpt", 64, 2, "fp32"),
        MatmulCase(512, 512, 512, layout="nn", **fp32),
        MatmulCase(512, 512, 512, layout="tn", **fp32),
        MatmulCase(256, 768, 768, **fp32),
        MatmulCase(64, 2048, 512, **fp32),
        PassCase("cross_entropy", 2**18, "fp32"),
        PassCase("adamw", 2**18, "fp32"),
        PassCase("gelu", 2**18, "fp32"),
        PassCase("layernorm", 2**18, "fp32", "backward"),
        *(ForwardCase(model, 64, 2, "fp32") for model in ("tiny-gqa", "tiny-moe")),
        ForwardCase("tiny-vit", 1, 2, "fp32"),
    ]


def kernels(environment: Environment) -> list[Case]:
    """Products of the layers of real models and squares, and every pass at several sizes, forward and backward."""
    gpu = environment.device == "cuda"
    dtypes: tuple[Dtype, ...] = ("bf16",) if gpu else ("fp32", "bf16")
    sides = (512, 1024, 2048, 4096, 8192) if gpu else (128, 256, 512, 1024)
    widths = ((4096, 4096), (4096, 14336), (14336, 4096), (1600, 6400)) if gpu else ((384, 1536), (768, 768))
    rows = (1, 16, 128, 1024, 8192) if gpu else (1, 64, 512)
    elements = (2**18, 2**22, 2**26) if gpu else (2**14, 2**18, 2**22)
    found: list[Case] = []
    for dtype in dtypes:
        found += [MatmulCase(n, n, n, dtype=dtype) for n in sides]
        found += [MatmulCase(m, n, k, dtype=dtype) for k, n in widths for m in rows]
        found += [MatmulCase(rows[-1], n, k, 1, dtype, layout) for k, n in widths for layout in ("nn", "tn")]
        found += [PassCase(each, n, dtype) for each in FUNCTIONS for n in elements]
        found += [PassCase(each, n, dtype, "backward") for each in FUNCTIONS if each not in ONE_WAY for n in elements]
    if gpu:
        found += [MatmulCase(n, n, n, dtype="tf32") for n in (2048, 8192)]
        found += [MatmulCase(1, 14336, 4096, cache="cold"), MatmulCase(1024, 4096, 4096, cache="cold")]
    return found


def models(environment: Environment) -> list[Case]:
    """Forward passes, training steps, prefill and decoding of whole models of every family."""
    return list(_on_gpu(environment) if environment.device == "cuda" else _on_cpu())


def _on_cpu() -> Iterator[Case]:
    for model in TINY:
        yield LayerCase(model, 128, 2, "fp32")
        yield LayerCase(model, 128, 2, "fp32", direction="backward")
        yield PrefillCase(model, 128, 2, "fp32")
        yield DecodeCase(model, 256, 1, "fp32")
    for model in (*TINY, *OTHERS, "small-gpt", "small-llama"):
        seq = 1 if model == "tiny-vit" else 128
        for dtype in ("fp32", "bf16"):
            yield ForwardCase(model, seq, 2, dtype)
            yield TrainingCase(model, seq, 2, dtype)
    for checkpointing in ("selective", "full"):
        yield TrainingCase("tiny-gpt", 128, 4, "fp32", "eager", checkpointing)
    yield TrainingCase("tiny-gpt", 128, 4, "fp32", "compiled")
    yield DecodeCase("tiny-gqa", 256, 1, "fp32", "compiled")


def _on_gpu(environment: Environment) -> Iterator[Case]:
    """What fits: a training step of 1.5B takes most of 80 GB. The cases that tell most come first; compiling one takes
    up to a minute or two. Batches grow, so that what does not fit is found out once."""
    large = environment.memory >= 60 * 2**30
    yield TrainingCase("gpt2", 1024, 32, "bf16-mixed", "compiled")
    if large:
        yield DecodeCase("llama-3-8b", 1024, 1, "bf16", "graph")
        yield TrainingCase("gpt-1.5b", 2048, 4, "bf16-mixed", "compiled")
        yield TrainingCase("gpt-1.5b", 2048, 8, "bf16-mixed", "compiled")
    yield TrainingCase("gpt2", 1024, 64, "bf16-mixed", "compiled")
    yield TrainingCase("gpt2", 1024, 8, "bf16-mixed", "sdpa")
    yield TrainingCase("gpt2", 1024, 8, "bf16-mixed", "eager")
    for model in ("llama-3.2-1b", "llama-mqa-1b", "mla-2b", "moe-3b"):
        yield PrefillCase(model, 2048, 1, "bf16")
        for batch in (1, 16):
            yield DecodeCase(model, 2048, batch, "bf16")
    for model, seq in (("gpt2", 1024), ("bert-masked", 512), ("transformer-base", 512), ("vit-base", 1)):
        yield ForwardCase(model, seq, 32, "bf16")
        if model != "gpt2":
            yield TrainingCase(model, seq, 32, "bf16-mixed")
    for checkpointing in ("selective", "full"):
        yield TrainingCase("gpt2", 1024, 8, "bf16-mixed", "sdpa", checkpointing)
    for model in ("gpt2", "gpt2-medium", "llama-3.2-1b"):
        yield LayerCase(model, 1024, 8, "bf16", "compiled")
        yield LayerCase(model, 1024, 8, "bf16", "compiled", "backward")
    for model in ("llama-3.2-1b", "llama-mqa-1b", "mla-2b"):
        yield DecodeCase(model, 2048, 1, "bf16", "graph")
    if large:
        for execution in ("sdpa", "compiled"):
            yield DecodeCase("llama-3-8b", 1024, 1, "bf16", execution)
        yield DecodeCase("llama-3-8b", 1024, 16, "bf16", "graph")
        yield PrefillCase("llama-3-8b", 2048, 1, "bf16", "compiled")
        yield TrainingCase("llama-3.2-1b", 2048, 4, "bf16-mixed", "compiled")
        yield TrainingCase("gpt2-xl", 1024, 4, "bf16", "compiled")
    for model in ("gpt2-medium", "llama-3.2-1b"):
        yield ForwardCase(model, 1024, 8, "bf16", "compiled")
    for checkpointing in ("selective", "full"):
        yield TrainingCase("gpt2", 1024, 8, "bf16-mixed", "compiled", checkpointing)


def full(environment: Environment) -> list[Case]:
    """Everything that the other suites have."""
    suites = (quick, kernels, attention, models, survey)
    return [case for suite in suites for case in suite(environment)]
