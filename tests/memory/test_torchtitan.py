"""Peaks that torchtitan measured (pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, December 2024).

Its "memory" is what the caching allocator has reserved (torchtitan/metrics.py: reserved_bytes.all.peak), so it is held
against `reserved`; nothing here is fitted to these figures. Weights in fp32, computing in bf16, AdamW, selective
checkpointing by operation; compiled layers, loss never compiled (train.py: "compiling loss function causes CUDA errors,
turning off for now").
"""

from __future__ import annotations

import csv
from collections import Counter
from typing import Any

import pytest
import torch
import transformers
from torch.utils import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from calc.architectures import from_config
from calc.memory.training import TrainingRank, ranks
from calc.quantities.flops import training
from calc.spec.run import Checkpointing, Run
from tests import reference
from tests.conventions.shapes import LLAMA_3, gpt

GIB = 2**30
EAGER = Run(recipe="bf16-fsdp", zero=3)
COMPILED = EAGER.changed(execution="compiled", fused_loss=False)
PIPELINE = COMPILED.changed(tp=8, pp=8, micro_batches=8)


def peak(model: str, plan: Run, batch: int, seq: int, checkpointing: Checkpointing) -> TrainingRank:
    found = ranks(LLAMA_3[model], Run(batch=batch, seq=seq).load(), plan, checkpointing)
    return max(found, key=lambda rank: rank.reserved)


def measured(model: str, parallelism: str, technique: str) -> dict[str, str]:
    with (reference.folder() / "measured" / "training" / "torchtitan_throughput.csv").open() as file:
        found = [row for row in csv.DictReader(file) if row["peak_mem_gib"]]
    name = f"llama3.1-{model.lower()}"
    wanted = (name, parallelism, technique)
    return next(row for row in found if (row["model"], row["parallelism"], row["technique"]) == wanted)


@pytest.mark.parametrize(
    ("model", "parallelism", "technique", "plan", "checkpointing", "error"),
    [
        ("8B", "FSDP8", "FSDP", EAGER.changed(dp=8), "selective-op", -0.050),
        ("8B", "FSDP8", "FSDP+compile", COMPILED.changed(dp=8), "selective-op", -0.039),
        ("8B", "FSDP128", "FSDP", EAGER.changed(dp=128), "selective-op", -0.041),
        ("8B", "FSDP128", "FSDP+compile", COMPILED.changed(dp=128), "selective-op", -0.033),
        ("8B", "FSDP4 CP2", "FSDP+CP+compile+Float8", COMPILED.changed(dp=4, cp=2), "full", -0.019),
        ("8B", "FSDP1 CP8", "FSDP+CP+compile+Float8", COMPILED.changed(cp=8), "full", -0.023),
        ("70B", "FSDP32 TP8", "2D compile Float8 AsyncTP", COMPILED.changed(dp=32, tp=8), "full", -0.097),
    ],
)
def test_within_ten_percent(
    model: str, parallelism: str, technique: str, plan: Run, checkpointing: Checkpointing, error: float
) -> None:
    row = measured(model, parallelism, technique)
    ours = peak(model, plan, int(row["local_batch"]), int(row["seq_len"]), checkpointing).reserved / GIB
    assert ours / float(row["peak_mem_gib"]) - 1 == pytest.approx(error, abs=0.001)
    assert abs(error) < 0.1


@pytest.mark.parametrize(
    ("model", "parallelism", "technique", "plan", "batch", "error"),
    [
        # Without async TP, activations are gathered before each product into tensors of their own: 2 GiB the head's
        # input alone, which DTensor keeps and Megatron-LM, which is followed here, gathers again.
        ("70B", "FSDP32 TP8", "2D compile Float8", COMPILED.changed(dp=32, tp=8), 16, -0.151),
        # The number of micro-batches is not published: 8, as many as stages, is torchtitan's default. What stages hold
        # between them is counted (calc/memory/between_stages.py), 2.1 GiB where the most is held, on the first stage.
        # There gradients in fp32 are 25.4 GiB, weights, which stay gathered, 12.7; of the rest it was not said.
        ("405B", "FSDP8 TP8 PP8", "3D compile Float8 AsyncTP 1F1B", PIPELINE.changed(dp=8), 4, -0.183),
        ("405B", "TP8 PP8 FSDP2 CP4", "4D compile Float8 AsyncTP 1F1B", PIPELINE.changed(dp=2, cp=4), 1, -0.126),
    ],
)
def test_short_for_a_reason(model: str, parallelism: str, technique: str, plan: Run, batch: int, error: float) -> None:
    row = measured(model, parallelism, technique)
    ours = peak(model, plan, batch, int(row["seq_len"]), "full").reserved / GIB
    assert ours / float(row["peak_mem_gib"]) - 1 == pytest.approx(error, abs=0.001)


def test_what_the_peak_consists_of() -> None:
    """The loss in fp32 three times over, what every layer keeps, the root unit, and a rank's share of states."""
    rank = peak("8B", EAGER.changed(dp=8), 2, 8192, "selective-op")
    tokens = 2 * 8192
    width, layers, vocab = 4096, 32, 128256
    live = rank.moments["loss"]
    assert max(rank.timeline, key=lambda name: rank.timeline[name]) == "loss"
    assert live["logits"] + live["temporaries"] == pytest.approx(3 * 4 * tokens * vocab, rel=1e-4)
    # Input, queries, values, gate, results of attention and of down_proj, which nothing needs; a log-sum-exp a head.
    assert rank.activations.layers == layers * tokens * (2 * (width + width + 1024 + 14336 + width + width) + 4 * 32)
    root, layer = 2 * (2 * vocab * width + width), 2 * (2 * width * (width + 1024) + 3 * width * 14336 + 2 * width)
    share = 4 * rank.states.elements // 8
    assert live["weights"] == share + root + layer
    assert live["optimizer"] == 2 * share
    assert live["gradients"] == 0
    assert rank.states.elements == 8_030_261_248
    compiled = peak("8B", COMPILED.changed(dp=8), 2, 8192, "selective-op")
    assert rank.activations.layers - compiled.activations.layers == layers * tokens * 2 * width


def test_selective_op_repeats_every_second_product() -> None:
    """k_proj, o_proj and up_proj of a Llama; of a GPT k_proj and o_proj, for nothing needs down_proj's result."""
    load = Run(batch=2, seq=512).load()
    again = training(LLAMA_3["8B"], load, "selective-op").total - training(LLAMA_3["8B"], load).total
    assert again == 2 * 1024 * 32 * 4096 * (1024 + 4096 + 14336)
    spec = gpt(256, 4, 4)
    again = training(spec, load, "selective-op").total - training(spec, load).total
    assert again == 2 * 1024 * 4 * 2 * 256 * 256


@pytest.mark.filterwarnings("ignore")
def test_selective_op_in_torch() -> None:
    """FLOPs of products, and bytes of results, as torch.utils.checkpoint runs a Llama under torchtitan's policy."""
    sizes = {"hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=96, num_key_value_heads=2, **sizes)
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="sdpa").train()
    kept: list[Any] = []

    def contexts() -> Any:
        made = Counter()

        def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            product = op == torch.ops.aten.mm.default
            made[ctx.is_recompute] += product
            attention = op == torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
            if not attention and not (product and made[ctx.is_recompute] % 2):
                return checkpoint.CheckpointPolicy.PREFER_RECOMPUTE
            if not ctx.is_recompute:
                kept.extend(ctx.op_output if attention else [ctx.op_output])
            return checkpoint.CheckpointPolicy.MUST_SAVE

        return checkpoint.create_selective_checkpoint_contexts(policy)

    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False, "context_fn": contexts})
    tokens = torch.randint(3, 96, (2, 16))
    with FlopCounterMode(display=False) as counter:
        logits = model(input_ids=tokens, use_cache=False).logits
        torch.nn.functional.cross_entropy(logits.reshape(-1, 96), tokens.reshape(-1)).backward()
    spec = from_config(config.to_dict() | {"architectures": ["LlamaForCausalLM"]})
    load = Run(batch=2, seq=16).load()
    assert counter.get_total_flops() == training(spec, load, "selective-op").linear
    made = ranks(spec, load, Run(recipe="fp32", device="cpu"), "selective-op")[0].activations
    inputs = 2 * 4 * 32 * 32
    assert made.layers == inputs + sum(tensor.numel() * tensor.element_size() for tensor in kept)
