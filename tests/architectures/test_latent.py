"""Latent and compressed attention and large mixtures of experts against transformers' own classes, at small size.

Counted there: elements of each parameter; FLOPs of matrix products of a sequence, of going back and of one more token;
bytes of everything in the cache.
"""

from __future__ import annotations

import json
from copy import deepcopy
from math import prod
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import calc  # noqa: E402
from calc.architectures import from_config  # noqa: E402
from calc.architectures.classes import CLASSES  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameter_shapes, parameters  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from harness.counter import count  # noqa: E402
from tests.architectures import their_models  # noqa: E402
from tests.architectures.cases_latent import (  # noqa: E402
    AFMOE,
    BASE,
    DOTS,
    ERNIE,
    EXAONE,
    EXPERTS,
    GQA,
    HUNYUAN,
    INDEXED,
    LATENT,
    LATENT_CASES,
    MIXTRAL,
    V2,
    V3,
    V4,
)
from tests.architectures.cases_recent import HY4, LARGE4_TEXT, LONGCAT, RECENT, STEP, ZAYA  # noqa: E402
from tests.architectures.headed import HEADED  # noqa: E402
from tests.architectures.renaming import compare, named_parameters  # noqa: E402
from tests.time.laid import operations  # noqa: E402

BATCH, SEQ = 2, 11
CASES = [(model_type, config) for model_type, configs in (LATENT_CASES | RECENT).items() for config in configs]
each_case = pytest.mark.parametrize(("model_type", "config"), CASES)


def build(model_type: str, config: dict[str, Any]) -> Any:
    """transformers' model on the CPU: which experts run depends on values."""
    special = {"pad_token_id": None, "bos_token_id": 1, "eos_token_id": 1}
    # A copy: what a config class folds into its nested objects would stay in them.
    parsed = transformers.AutoConfig.for_model(model_type, **deepcopy(special | config))
    torch.manual_seed(0)
    named = HEADED.get(model_type) or getattr(transformers, next(iter(CLASSES[model_type])), None)
    make = transformers.AutoModelForCausalLM.from_config if named is None else getattr(named, "_from_config")  # noqa: B009
    model = make(parsed, attn_implementation="eager", experts_implementation="batched_mm").eval()
    their_models.route_evenly(model)
    return model


def new_cache(model: Any) -> Any:
    """MiniMax takes no cache but its own."""
    if model.config.model_type == "minimax":
        from transformers.models.minimax.modeling_minimax import MiniMaxCache

        return MiniMaxCache()
    return transformers.DynamicCache(config=model.config)


def held(cache: Any) -> int:
    """Bytes of everything in the cache, a tensor that is both keys and values twice."""
    found = [state for state in getattr(cache, "linear_cache", []) if torch.is_tensor(state)]
    for layer in cache.layers:
        found += [getattr(layer, name, None) for name in ("keys", "values", "indexer_keys")]
        states = ("buffer_kv", "buffer_gate", "compressed_kv", "overlap_kv", "overlap_gate")
        for name in (*states, "conv_states", "recurrent_states"):
            found += list(getattr(layer, name, {}).values())
    return sum(tensor.numel() * tensor.element_size() for tensor in found if tensor is not None)


def ids(seq: int) -> Any:
    return torch.ones(BATCH, seq, dtype=torch.long)


@each_case
def test_same_as_transformers(model_type: str, config: dict[str, Any]) -> None:
    model = build(model_type, config)
    theirs = {path: parameter.numel() for path, parameter in named_parameters(model)}
    cache = new_cache(model)
    with torch.no_grad():
        once = count(lambda: model(ids(SEQ), past_key_values=cache, use_cache=True))
        bytes_held = held(cache)
        one = count(lambda: model(ids(1), past_key_values=cache, use_cache=True))
    saved = json.loads(model.config.to_json_string(use_diff=False))
    # The config as people write it; then as transformers saves it, all defaults written.
    for raw in ({"model_type": model_type, **config}, saved):
        spec = from_config(raw)
        ours = {path: prod(shape) for path, shape in parameter_shapes(spec).items()}
        assert compare(theirs, ours, model_type) == {}
        assert forward(spec, Load(batch=BATCH, seq=SEQ)).total == once
        assert forward(spec, Load(batch=BATCH, seq=1, context=SEQ, decode=True)).total == one
        assert kv_cache(spec, BATCH, SEQ, "fp32", "cache").total_bytes == bytes_held


@pytest.mark.slow
@each_case
def test_going_back(model_type: str, config: dict[str, Any]) -> None:
    model, spec = build(model_type, config), from_config({"model_type": model_type, **config})
    both = count(lambda: model(ids(SEQ), use_cache=False).logits.sum().backward())
    assert training(spec, Load(batch=BATCH, seq=SEQ)).total == both


@pytest.mark.parametrize("seq", [1, 2, 3, 5])
def test_going_back_through_few_tokens(seq: int) -> None:
    """Sequences too short for an entry of DeepSeek-V4, or for one of some layers, pass no gradient to what makes it."""
    model, spec = build("deepseek_v4", V4), from_config({"model_type": "deepseek_v4", **V4})
    both = count(lambda: model(ids(seq), use_cache=False).logits.sum().backward())
    assert training(spec, Load(batch=BATCH, seq=seq)).total == both


@pytest.mark.parametrize("model_type", ["deepseek_v3", "glm4_moe"])
def test_modules_for_further_tokens(model_type: str) -> None:
    from transformers.modeling_layers import MtpModel

    config = LATENT_CASES[model_type][0] | {"num_nextn_predict_layers": 2}
    model = build(model_type, config)
    theirs = MtpModel(model, 2)
    spec = from_config({"model_type": model_type, **config})
    own = sum(p.numel() for name, p in theirs.named_parameters() if name.startswith("layers."))
    assert parameters(spec, mtp=True) == parameters(spec) | {"mtp": own}
    assert sum(prod(s) for s in parameter_shapes(spec, mtp=True).values()) == sum(parameters(spec).values()) + own

    def run() -> None:
        embedded, last = model.get_input_embeddings()(ids(SEQ)), torch.zeros(BATCH, SEQ, 32)
        turned = model.model.rotary_emb(last, torch.arange(SEQ)[None])
        for layer in theirs.layers:
            last = layer(embedded, last, turned, None, None, None)
            model.lm_head(last)

    counted = [forward(spec, Load(batch=BATCH, seq=SEQ, mtp=mtp)).total for mtp in (False, True)]
    assert counted[1] - counted[0] == count(run)


def test_modules_for_further_tokens_only_where_they_are_known() -> None:
    with pytest.raises(Refused) as caught:
        parameters(from_config({"model_type": "minicpm3", **LATENT_CASES["minicpm3"][0]}), mtp=True)
    assert caught.value.field == "mtp"


@pytest.mark.parametrize("model_type", ["ernie4_5_moe", "afmoe"])
def test_a_correction_may_be_a_frozen_parameter(model_type: str) -> None:
    config = LATENT_CASES[model_type][0]
    model, spec = build(model_type, config), from_config({"model_type": model_type, **config})
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert sum(parameters(spec, trainable=True).values()) == trained < sum(parameters(spec).values())


def test_absorbed_decoding() -> None:
    """The latent in place of keys and values: one product more for queries and results, none for cached tokens."""
    spec = from_config({"model_type": "deepseek_v3", **V3})
    heads, layers, context = 4, 4, 20
    rank, rope, nope, value = 10, 4, 6, 5
    one = {"seq": 1, "context": context, "decode": True}
    expanded, absorbed = (forward(spec, Load(**one, absorbed=absorbed)) for absorbed in (False, True))
    assert absorbed.attention == 2 * layers * heads * (context + 1) * (2 * rank + rope)
    assert expanded.linear - absorbed.linear == 2 * layers * context * rank * heads * (nope + value)


def test_decoding_absorbs_unless_a_convention_is_named() -> None:
    """Every answer about decoding is of what engines run; a named convention counts what eager PyTorch executes."""
    spec = from_config({"model_type": "deepseek_v3", **V3})
    one = {"seq": 1, "context": 20, "decode": True}
    expanded, absorbed = (forward(spec, Load(**one, absorbed=absorbed)).total for absorbed in (False, True))

    def asked(**words: Any) -> calc.Estimate:
        return calc.estimate(spec, "flops.decode", context=20, **words)

    assert asked().value == asked(convention="torch", latent_reading="absorbed").value == absorbed
    assert asked(convention="torch").value == asked(latent_reading="expanded").value == expanded
    assert "absorbed, as engines decode" in " ".join(asked().caveats)
    assert "expanded, as eager PyTorch does" in " ".join(asked(convention="torch").caveats)
    for quantity in ("traffic.decode", "memory.peak"):
        words: dict[str, Any] = {"context": 20} if quantity == "traffic.decode" else {"mode": "inference", "seq": 20}
        told = calc.estimate(spec, quantity, **words, latent_reading="absorbed").value
        assert (
            calc.estimate(spec, quantity, **words).value
            == told
            <= calc.estimate(spec, quantity, **words, latent_reading="expanded").value
        )
    for execution in ("eager", "sdpa", "compiled"):
        kernels = operations(spec, Run(phase="decode", context=20, execution=execution))
        work = sum(each.flops * each.calls for each in kernels)
        assert work == absorbed, execution


def test_only_an_exact_count_knows_which_tokens_are_chosen() -> None:
    config = {"model_type": "deepseek_v32", **V3, **INDEXED}
    chosen, plain = from_config(config), from_config({"model_type": "deepseek_v3", **V3})
    indexer = forward(chosen, Load(seq=SEQ)).attention - forward(plain, Load(seq=SEQ)).attention
    assert indexer == 2 * 4 * 3 * (6 + 1) * SEQ * SEQ
    keys = sum(min(i, 5) for i in range(1, SEQ + 1))
    exact = forward(chosen, Load(seq=SEQ, scores="causal-exact")).attention
    assert exact == 2 * 4 * (3 * 7 * SEQ * (SEQ + 1) // 2 + 4 * (10 + 5) * keys)


@pytest.mark.parametrize("scores", ["full", "causal-half", "causal-exact"])
def test_pairs_of_tokens_and_entries(scores: Any) -> None:
    for context, seq, stride, top_k in ((0, 23, 4, None), (9, 14, 4, None), (0, 40, 4, 3), (30, 9, 4, 3)):
        load = Load(seq=seq, context=context, scores=scores)
        whole, before = (context + seq) // stride, context // stride
        seen = [min(i // stride, top_k or whole) for i in range(context + 1, context + seq + 1)]
        expected = {"full": 2 * seq * whole, "causal-half": seq * (whole + before), "causal-exact": 2 * sum(seen)}
        assert load.twice_entries(stride, top_k) == expected[scores]


@pytest.mark.parametrize("scores", ["full", "causal-half", "causal-exact"])
@pytest.mark.parametrize(
    ("context", "seq", "pool", "top_k"), [(0, 23, 4, 8), (9, 14, 4, 4), (0, 3, 4, 8), (30, 9, 1, 5)]
)
def test_pairs_of_tokens_chosen_in_pools(scores: Any, context: int, seq: int, pool: int, top_k: int) -> None:
    """Whole pools that a token sees, as many as are chosen, and what it sees behind the last of them."""
    load = Load(seq=seq, context=context, scores=scores)
    seen = [min(i // pool * pool, top_k) + i % pool for i in range(context + 1, context + seq + 1)]
    assert load.twice_pooled(pool, top_k) == (2 * sum(seen) if scores == "causal-exact" else load.twice_pairs(None))


def test_bytes_between_two_entries() -> None:
    """What waits for its entry grows and shrinks; a token's share of an entry does not."""
    spec = from_config({"model_type": "deepseek_v4", **V4})
    caches = [kv_cache(spec, 1, seq, "fp16", "cache") for seq in range(12, 29)]
    assert {cache.bytes_per_token for cache in caches} == {caches[0].bytes_per_token}
    assert caches[-1].total_bytes - caches[0].total_bytes == caches[0].bytes_per_token * 16


def test_longcat_flash_as_published() -> None:
    """560 billion parameters, of which tokens activate 18.6 to 31.3, on average 27 (arXiv:2509.01322, abstract)."""
    sizes = {"vocab_size": 131072, "hidden_size": 6144, "num_layers": 28, "num_attention_heads": 64}
    sizes |= {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    sizes |= {"v_head_dim": 128, "ffn_hidden_size": 12288, "n_routed_experts": 512, "expert_ffn_hidden_size": 2048}
    spec = from_config({"model_type": "longcat_flash", "moe_topk": 12, "zero_expert_num": 256, **sizes})
    counted, active = parameters(spec), parameters(spec, active=True)
    assert round(sum(counted.values()) / 1e9) == 561
    assert round((sum(active.values()) - active["embedding"]) / 1e9) == 27
    rest = sum(active.values()) - active["routed_expert"] - active["embedding"]
    for computed, published in ((0, 18.6), (12, 31.3)):
        assert (rest + computed * counted["routed_expert"] / 512) / 1e9 == pytest.approx(published, abs=0.1)


@pytest.mark.parametrize(
    ("model_type", "config", "field"),
    [
        ("deepseek_v2", V2 | {"mlp_bias": True}, "mlp_bias"),
        ("deepseek_v2", {k: v for k, v in V2.items() if k != "kv_lora_rank"}, "kv_lora_rank"),
        ("deepseek_v3", V3 | {"num_key_value_heads": 2}, "num_key_value_heads"),
        ("deepseek_v3", V3 | {"moe_layer_freq": 2}, "moe_layer_freq"),
        ("deepseek_v3", V3 | {"n_group": 3}, "groups"),
        ("deepseek_v32", V3 | INDEXED | {"q_lora_rank": None}, "q_lora_rank"),
        ("deepseek_v32", V3 | INDEXED | {"index_head_dim": 2}, "d_head"),
        ("glm_moe_dsa", V3 | INDEXED | {"indexer_types": ["shared", "full", "full", "full"]}, "indexer_types"),
        ("glm_moe_dsa", V3 | INDEXED | {"index_topk_pattern": "FS"}, "index_topk_pattern"),
        ("deepseek_v4", V4 | {"num_key_value_heads": 2}, "num_key_value_heads"),
        ("deepseek_v4", V4 | {"compress_ratios": [128, 8, 8, 8, 8]}, "compress_ratios"),
        ("deepseek_v4", V4 | {"o_groups": 3}, "n_out_groups"),
        ("deepseek_v4", V4 | {"norm_topk_prob": False}, "norm_topk_prob"),
        ("deepseek_v4", V4 | {"hidden_act": "gelu"}, "hidden_act"),
        ("deepseek_v4", V4 | {"mlp_layer_types": ["moe"] * 4}, "mlp_layer_types"),
        ("glm4_moe", GQA | EXPERTS | {"sliding_window": 4}, "sliding_window"),
        ("glm4_moe_lite", BASE | LATENT | EXPERTS | {"first_k_dense_replace": 2}, "first_k_dense_replace"),
        ("glm4_moe_lite", BASE | LATENT | EXPERTS | {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ("ernie4_5_moe", ERNIE | {"use_bias": True}, "use_bias"),
        ("ernie4_5_moe", ERNIE | {"moe_norm_min": 0.1}, "moe_norm_min"),
        ("hunyuan_v1_moe", HUNYUAN | {"num_shared_expert": 2}, "num_shared_expert"),
        ("hunyuan_v1_moe", HUNYUAN | {"moe_intermediate_size": [48, 48, 48, 40]}, "moe_intermediate_size"),
        ("hunyuan_v1_moe", HUNYUAN | {"moe_topk": [2, 2, 2]}, "moe_topk"),
        ("dots1", DOTS | {"n_shared_experts": None}, "n_shared_experts"),
        ("solar_open", GQA | EXPERTS | {"use_qk_norm": True}, "use_qk_norm"),
        ("exaone_moe", EXAONE | {"sliding_window_pattern": "LLLG"}, "sliding_window_pattern"),
        ("exaone_moe", EXAONE | {"sliding_window": None}, "sliding_window"),
        ("afmoe", AFMOE | {"attention_bias": True}, "attention_bias"),
        ("afmoe", AFMOE | {"sliding_window": None}, "sliding_window"),
        ("doge", BASE | {"is_moe": True, "num_experts": 60, "num_experts_per_tok": 50}, "num_experts_per_tok"),
        ("hy_v4", HY4 | {"swiglu_limit": 0}, "limit"),
        ("step3p5", STEP | {"hidden_act": "gelu"}, "hidden_act"),
        ("step3p5", STEP | {"gating": "per-value"}, "gating"),
        ("step3p5", STEP | {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("step3p5", STEP | {"sink": True}, "sink"),
        ("step3p5", STEP | {"moe_router_activation": "softmax"}, "moe_router_activation"),
        ("step3p5", STEP | {"sliding_window": None}, "sliding_window"),
        ("step3p5", STEP | {"num_sliding_attention_heads": 3}, "num_sliding_attention_heads"),
        ("step3p5", STEP | {"attention_other_setting": {"head_dim": 16}}, "attention_other_setting.head_dim"),
        ("step3p5", STEP | {"per_layer_config": {"0": {"num_attention_heads": 8}}}, "per_layer_config"),
        ("step3p5", STEP | {"swiglu_limits": [1.0, 2.0]}, "swiglu_limits"),
        ("step3p5", STEP | {"swiglu_limits_shared": [1.0, -2.0, 0, 0]}, "swiglu_limits_shared"),
        ("step3p5", STEP | {"moe_layers_enum": "first"}, "moe_layers_enum"),
        ("step3p5", STEP | {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar"),
        ("step3p5", STEP | {"rope_theta": [1.0, 2.0, 3.0, 4.0]}, "rope_theta"),
        ("step3p5", STEP | {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling.type"),
        ("step3p5", STEP | {"rope_parameters": {"rope_theta": 7.0}}, "rope_parameters.full_attention"),
        ("hy_v4", HY4 | {"indexer_types": ["shared", "full", "full", "full"]}, "indexer_types"),
        ("longcat_flash", LONGCAT | {"zero_expert_num": 3}, "n_zero"),
        ("longcat_flash", LONGCAT | {"zero_expert_num": None}, "zero_expert_num"),
        ("longcat_flash", LONGCAT | {"zero_expert_type": "drop"}, "zero_expert_type"),
        ("longcat_flash", LONGCAT | {"num_hidden_layers": 2}, "num_hidden_layers"),
        ("longcat_flash", LONGCAT | {"head_dim": 8}, "head_dim"),
        ("longcat_flash", LONGCAT | {"qk_head_dim": 9}, "qk_head_dim"),
        ("longcat_flash", LONGCAT | {"q_lora_rank": None}, "q_lora_rank"),
        ("longcat_flash", LONGCAT | {"router_bias": True}, "router_bias"),
        ("longcat_flash", LONGCAT | {"mla_scale_kv_lora": False}, "mla_scale_kv_lora"),
        ("mistral_large4_text", LARGE4_TEXT | {"kv_source_layers": [0, 0, 1, 3, 4, 5]}, "kv_source_layers"),
        ("mistral_large4_text", LARGE4_TEXT | {"kv_source_layers": [0, 1, 0, 3, 4, 5]}, "kv_source_layers"),
        ("mistral_large4_text", LARGE4_TEXT | {"kv_source_layers": [0, 1, 2, 2, 4, 5]}, "kv_source_layers"),
        ("mistral_large4_text", LARGE4_TEXT | {"kv_source_layers": [0, 0]}, "kv_source_layers"),
        ("mistral_large4_text", LARGE4_TEXT | {"indexer_types": ["shared"] + ["full"] * 5}, "indexer_types"),
        ("mistral_large4_text", LARGE4_TEXT | {"no_rope_layers": [1]}, "no_rope_layers"),
        ("mistral_large4_text", LARGE4_TEXT | {"num_key_value_heads": 2}, "num_key_value_heads"),
        ("mistral_large4_text", LARGE4_TEXT | {"final_logit_softcapping": None}, "final_logit_softcapping"),
        ("zaya", ZAYA | {"num_experts_per_tok": 2}, "num_experts_per_tok"),
        ("zaya", ZAYA | {"layer_types": ["full_attention"] * 4}, "layer_types"),
        ("zaya", ZAYA | {"sliding_window": None}, "sliding_window"),
        ("zaya", ZAYA | {"cca_time0": 1, "cca_time1": 1}, "cca_time0"),
        ("zaya", ZAYA | {"rope_parameters": {"rope_type": "default", "rope_theta": 71.0}}, "rope_parameters.hybrid"),
        ("minimax", GQA | MIXTRAL | {"hidden_act": "gelu"}, "hidden_act"),
        ("minimax_m2", GQA | MIXTRAL | {"use_qk_norm": False}, "use_qk_norm"),
        ("mimo_v2_flash", GQA | EXPERTS | {"swa_head_dim": 16}, "swa_head_dim"),
        ("mimo_v2_flash", GQA | EXPERTS | {"hybrid_layer_pattern": [0, 0, 1, 1]}, "hybrid_layer_pattern"),
        ("mimo_v2_flash", GQA | EXPERTS | {"num_key_value_heads": 4}, "num_key_value_heads"),
    ],
)
def test_refused(model_type: str, config: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as caught:
        from_config({"model_type": model_type, **config})
    assert caught.value.field == field
