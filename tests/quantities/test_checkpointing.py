"""Recomputation against what torch.utils.checkpoint executes: real transformers models, counted by FlopCounterMode."""

from __future__ import annotations

from typing import Any

import pytest

from calc.blocks.build import build
from calc.quantities.chains import rerun
from calc.quantities.flops import forward, training
from calc.spec import LayerGroup, Mamba2, ModelSpec, Shorthand
from calc.spec.load import Load
from calc.spec.run import Run
from calc.trace.part import leaves

BATCH, SEQ, VOCAB = 2, 16, 96
SIZES = {"d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 80, "vocab_size": VOCAB}
LLAMA = {"n_kv_heads": 2, "gated": True, "bias": False, "norm": "rmsnorm", "position": "rope", "tied": False}
HF = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED = {**HF, "num_key_value_heads": 2}
MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}
EXPERTS = {"n_experts": 4, "top_k": 2, "d_expert": 80, "d_ff": None}

# The transformers config class, its fields, and the same shape in our words.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "pre": (
        "GPT2Config",
        {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 80, "n_positions": 64}
        | {"attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0, "bos_token_id": 1, "eos_token_id": 2},
        {"position": "none"},
    ),
    "pre, gated": ("LlamaConfig", GROUPED, LLAMA),
    "sandwich": ("Gemma2Config", {**GROUPED, "head_dim": 8}, {**LLAMA, "placement": "sandwich"}),
    "output": ("Olmo2Config", GROUPED, {**LLAMA, "placement": "output"}),
    "post": (
        "OPTConfig",
        {k: v for k, v in HF.items() if k != "intermediate_size"}
        | {"ffn_dim": 80, "do_layer_norm_before": False, "dropout": 0, "attention_dropout": 0},
        {"position": "none", "placement": "post"},
    ),
    "parallel": ("CohereConfig", GROUPED, {**LLAMA, "placement": "parallel"}),
    "parallel-two-norms": ("GPTNeoXConfig", HF, {"position": "rope", "placement": "parallel-two-norms"}),
    "mixture": ("MixtralConfig", {**GROUPED, **MOE}, {**LLAMA, **EXPERTS}),
}


def executed(config_class: str, fields: dict[str, Any], reentrant: bool | None) -> tuple[int, int]:
    """FLOPs of the forward pass, and of forward and backward, without checkpointing (None) or with one kind of it."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    flop_counter = pytest.importorskip("torch.utils.flop_counter")
    config = getattr(transformers, config_class)(**fields)
    kwargs: dict[str, Any] = {"attn_implementation": "eager"}
    if "num_local_experts" in fields:
        kwargs["experts_implementation"] = "batched_mm"
    model = transformers.AutoModelForCausalLM.from_config(config, **kwargs).train()
    if reentrant is not None:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    tokens = torch.randint(3, VOCAB, (BATCH, SEQ))
    with flop_counter.FlopCounterMode(display=False) as counter:
        logits = model(input_ids=tokens, use_cache=False).logits
        once = counter.get_total_flops()
        torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), tokens.reshape(-1)).backward()
    return once, counter.get_total_flops()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("placement", MODELS)
def test_what_torch_recomputes(placement: str) -> None:
    config_class, fields, ours = MODELS[placement]
    spec = Shorthand.model_validate({**SIZES, **ours}).expand()
    load = Load(BATCH, SEQ)
    once, trained = executed(config_class, fields, None)
    assert forward(spec, load).total == once
    assert training(spec, load).total == trained
    assert training(spec, load, "full").total == executed(config_class, fields, True)[1]
    assert training(spec, load, "full-early-stop").total == executed(config_class, fields, False)[1]


def test_early_stop_saves_the_last_matmul_only_where_nothing_follows_it() -> None:
    load = Load(BATCH, SEQ)
    down = 2 * BATCH * SEQ * SIZES["d_model"] * SIZES["d_ff"] * SIZES["n_layers"]
    saved = {}
    for placement in ("pre", "post", "output", "sandwich", "parallel", "parallel-two-norms"):
        spec = Shorthand.model_validate({**SIZES, "position": "none", "placement": placement}).expand()
        saved[placement] = training(spec, load, "full").total - training(spec, load, "full-early-stop").total
    assert saved == {
        "pre": down,
        "post": 0,
        "output": 0,
        "sandwich": 0,
        "parallel": down,
        "parallel-two-norms": down,
    }


def test_selective_repeats_scores_and_values_and_full_leaves_the_head_out() -> None:
    spec = Shorthand.model_validate({**SIZES, **LLAMA}).expand()
    load = Load(BATCH, SEQ)
    once, none = forward(spec, load), training(spec, load)
    head = 2 * BATCH * SEQ * SIZES["d_model"] * VOCAB
    assert none.total == 3 * once.total
    assert training(spec, load, "selective").total - none.total == once.attention
    assert training(spec, load, "full").total - none.total == once.total - head


def test_selective_runs_a_scan_again_whose_states_were_kept_and_no_kernel_that_keeps_none() -> None:
    mixer = Mamba2(n_heads=4, d_head=8, d_state=8)
    spec, load = ModelSpec(d_model=16, vocab_size=50, layers=(LayerGroup(count=2, mixer=mixer),)), Load(2, 256)
    everything = list(leaves(build(spec, load)))

    def again(execution: str) -> int:
        run = Run(phase="training", checkpointing="selective", execution=execution)
        return sum(int(leaf.calls * leaf.op.flops) for leaf in rerun(everything, run))

    assert again("sdpa") == training(spec, load, "selective").total - training(spec, load).total > 0
    assert again("compiled") == 0
