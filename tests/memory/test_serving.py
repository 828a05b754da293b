"""Memory of inference against published figures, an engine's logs, transformers, and the reference models' caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calc
from calc.architectures import from_config
from calc.memory.cache import cache_columns
from calc.memory.paging import Paged, allocated
from calc.memory.serving import max_batch, max_concurrency, max_context, servers
from calc.memory.totals import memory_ranks, total_terms
from calc.quantities.kv_cache import kv_cache
from calc.quantities.parameters import parameters
from calc.quantities.weights import weight_bytes
from calc.spec import (
    Adapter,
    Attention,
    Bottleneck,
    Branch,
    LayerGroup,
    Lora,
    Mamba,
    Mamba2,
    Mlp,
    ModelSpec,
    Parallel,
    Prefix,
    Prompt,
)
from calc.spec.run import ExecutionName, Run
from tests import reference

GIB = 2**30


def asked(seq: Any = 2048, batch: Any = 1, dtype: str = "bf16", **plan: Any) -> Run:
    return Run(batch=batch, seq=seq, dtype=dtype, mode="inference", **plan)


def measured(name: str) -> ModelSpec:
    return from_config(reference.config(name))


@pytest.mark.parametrize(
    ("name", "seq", "per_token"),
    [
        # Published: 2 * n_kv_heads * d_head * 2 bytes a layer, of the layers that keep a token at that length.
        ("llama-2-7b", 2048, 524_288),
        ("llama-3-70b", 2048, 327_680),
        ("mixtral-8x7b", 2048, 131_072),
        ("gemma-2-9b", 2048, 344_064),
        ("gemma-2-9b", 8192, 258_048),
        ("gpt-oss-20b", 8192, 24_960),
    ],
)
def test_cache_of_a_token(name: str, seq: int, per_token: int) -> None:
    spec = calc.load_model(name)
    assert total_terms(spec, asked(seq, batch=3))["kv_cache"] == 3 * seq * per_token
    assert kv_cache(spec, 1, seq).average_bytes_per_token == per_token


@pytest.mark.parametrize(
    ("name", "tp", "seq", "available", "concurrency"),
    [
        # vLLM 0.11.0 on an L40S: "Available KV cache memory: 10.31 GiB", "Maximum concurrency for 4,096 tokens per
        # request: 10.28x". 48 of its 64 layers have a window of 4,096 tokens, so they take a page more than the others.
        ("EXAONE-4.0-32B", 1, 4096, 10.31, 10.28),
        # vLLM 0.10.2, FP8 weights, two GPUs: 25.91 GiB on each, 17.27x for 32,768 tokens.
        ("Qwen3-30B-A3B", 2, 32_768, 25.91, 17.27),
        # vLLM 0.11.0 on four RTX 3090: 2.31 GiB on each, 1.54x for 65,536 tokens. Four heads, one for each GPU.
        ("Qwen3-30B-A3B", 4, 65_536, 2.31, 1.54),
    ],
)
def test_engine_logs(name: str, tp: int, seq: int, available: float, concurrency: float) -> None:
    taken = cache_columns(measured(name), asked(seq, tp=tp))["vllm"]
    assert taken is not None
    assert available * GIB / taken == pytest.approx(concurrency, rel=0.001)


def test_layers_of_two_kinds_share_pages() -> None:
    """gpt-oss-20b: twelve layers of each kind in a group; a page is 16 tokens * 2 * 8 heads * 64 * 2 bytes a layer."""
    spec, page = calc.load_model("gpt-oss-20b"), 16 * 2 * 8 * 64 * 2
    for batched, sliding in ((2048, 137), (8192, 513)):
        columns = cache_columns(spec, asked(8192, batch=2, batched_tokens=batched))
        assert columns["vllm"] == 2 * 12 * page * (8192 // 16 + sliding)
        assert columns["theory"] == 2 * 8192 * 24_960


@given(
    tokens=st.integers(1, 300),
    window=st.none() | st.integers(1, 60),
    batched=st.integers(1, 60),
    block=st.sampled_from([1, 4, 16]),
)
def test_pages_that_are_touched(tokens: int, window: int | None, batched: int, block: int) -> None:
    """A sequence that is read in pieces and then grows token by token never holds more pages than are allocated."""
    held, start = 0, 0
    while start < tokens:
        end = min(tokens, start + batched)
        first = 0 if window is None else max(0, start - window + 1)
        held = max(held, -(-end // block) - first // block)
        start = end
    kind = Paged(8, 3, 3, block, window)
    pages = kind.blocks(tokens, batched)
    assert allocated([kind], tokens, batched) == 3 * 8 * block * pages
    assert held == pages if window is None else held <= pages


def test_what_an_engines_rules_do_not_say() -> None:
    """Keys of an encoder's result: nothing that is asked of another's cache is refused for that."""
    spec = calc.load_model("transformer-base")
    columns = cache_columns(spec, asked(64))
    assert columns["vllm"] is None
    assert columns["theory"] == total_terms(spec, asked(64))["kv_cache"] > 0
    with pytest.raises(calc.Refused, match="engine: expected a model that caches keys and values of its own"):
        cache_columns(spec, asked(64, engine="vllm"))


def test_latents_of_an_engine() -> None:
    """Pages of 64 tokens; in fp8, sparse attention's latents take 656 bytes and an indexer's keys 132."""
    plain, sparse = measured("DeepSeek-V3"), measured("DeepSeek-V3.2")
    assert cache_columns(plain, asked(1000))["theory"] == 1000 * 70_272
    assert cache_columns(plain, asked(1000))["vllm"] == 1024 * 70_272
    assert cache_columns(plain, asked(1000, cache_dtype="fp8"))["vllm"] == 1024 * 70_272 // 2
    assert cache_columns(sparse, asked(1000, cache_dtype="fp8"))["vllm"] == 1024 * 61 * (656 + 132)


def test_engines_know_no_pools_of_tokens() -> None:
    spec = measured("DeepSeek-V3.2")
    mixers: list[Any] = [each.mixer.model_copy(update={"pool": 16}) for each in spec.layers]
    pooled = tuple(each.model_copy(update={"mixer": mixer}) for each, mixer in zip(spec.layers, mixers, strict=True))
    with pytest.raises(calc.Refused, match="engine: expected tokens that are chosen one by one"):
        cache_columns(spec.model_copy(update={"layers": pooled}), asked(64, engine="vllm"))


def test_tensor_parallel_ranks_share_few_heads() -> None:
    spec, latent = calc.load_model("llama-3-8b"), measured("DeepSeek-V3")
    for name, whole in cache_columns(spec, asked()).items():
        assert whole is not None
        # Eight heads of keys: each of sixteen ranks holds one.
        for tp, ranks in ((4, 4), (16, 8)):
            assert cache_columns(spec, asked(tp=tp))[name] == whole // ranks
    assert cache_columns(latent, asked(tp=8)) == cache_columns(latent, asked())
    # Every rank has all of an indexer: 61 * (1536 * 64 * 128 + 7168 * (128 + 64) + 2 * 128) parameters in bf16.
    plain, indexed = (total_terms(measured(f"DeepSeek-{name}"), asked(tp=8))["weights"] for name in ("V3", "V3.2"))
    assert indexed - plain == 2 * 61 * (1536 * 64 * 128 + 7168 * (128 + 64) + 2 * 128)
    scaled = total_terms(spec, asked(tp=4, dtype="int4:g128"))["weights"]
    assert 4 * scaled == pytest.approx(total_terms(spec, asked(dtype="int4:g128"))["weights"], rel=1e-3)


@pytest.mark.parametrize("dtype", ["bf16", "int4", "fp8:row", "int4:g128:zero"])
@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b", "gemma-2-2b"])
def test_weights_are_those_of_the_model(name: str, dtype: str) -> None:
    spec = calc.load_model(name)
    assert total_terms(spec, asked(dtype=dtype))["weights"] == sum(weight_bytes(spec, dtype).values())


def test_pipeline_stages_add_up() -> None:
    """80 layers over three stages: 27, 27 and 26; the headline is the worst one's."""
    spec, query = calc.load_model("llama-3-70b"), asked(4096, pp=3, engine="vllm")
    alone, ranks = total_terms(spec, asked(4096, engine="vllm")), memory_ranks(spec, query)
    for term in ("weights", "kv_cache"):
        assert sum(rank.terms[term] for rank in ranks) == alone[term]
    assert [rank.terms["logits"] > 0 for rank in ranks] == [False, False, True]
    assert calc.estimate(spec, "memory.peak", seq=4096, run=query).value == max(rank.peak for rank in ranks)


def test_latents_read_without_expanding_them() -> None:
    spec, query = measured("DeepSeek-V3"), asked(32_768, batch=8, tp=8, execution="compiled")
    decode = {
        reading: servers(spec, query.changed(latent_reading=reading))[0].timeline["decode, widest moment"]
        for reading in ("expanded", "absorbed")
    }
    # Keys and values of 16 heads for 8 * 32,768 tokens: 128 + 128 + 192 elements a head.
    expanded = 8 * 32_768 * 16 * (128 + 128 + 192) * 2
    assert decode["expanded"] - decode["absorbed"] == pytest.approx(expanded, rel=0.001)


@settings(deadline=None, max_examples=12)
@given(
    budget=st.integers(13 * GIB, 90 * GIB),
    seq=st.integers(1, 9000),
    engine=st.sampled_from([None, "vllm"]),
    name=st.sampled_from(["gemma-2-2b", "mistral-7b"]),
)
def test_the_largest_that_fits(budget: int, seq: int, engine: str | None, name: str) -> None:
    spec, query = calc.load_model(name), asked(seq, engine=engine, execution="compiled")

    def peak(changed: Run) -> int:
        return max(rank.peak for rank in servers(spec, changed))

    batch, context = max_batch(spec, query, budget), max_context(spec, query, budget)
    for field, most in (("batch", batch), ("seq", context)):
        assert most is None or most == 0 or peak(query.changed(**{field: most})) <= budget
        assert most is None or peak(query.changed(**{field: most + 1})) > budget
    concurrency = max_concurrency(spec, query, budget)
    assert concurrency is None or (batch is not None and concurrency >= batch)


def test_three_columns_of_a_window() -> None:
    """What the reference model holds: a growing cache W - 1 tokens, one laid out beforehand all W of them."""
    torch = pytest.importorskip("torch")
    from reference_models import build

    group = LayerGroup(count=2, mixer=Attention(n_heads=4, window=5), channel=Mlp())
    spec = ModelSpec(d_model=32, vocab_size=97, layers=(group,))
    model, tokens = build(spec), torch.randint(97, (3, 21))
    query = asked(21, batch=3, dtype="fp32")
    for room, reading in ((None, "cache"), (21, "tokens")):
        cache = model.new_cache(room)
        with torch.no_grad():
            model(tokens, cache=cache)
        columns = cache_columns(spec, query.changed(window_reading=reading))
        assert columns["theory"] == cache.nbytes
    # Two pages of the 21 tokens that one pass brings, and one more since a window may begin within a page.
    assert columns["vllm"] == 3 * 2 * (2 + 1) * 16 * (2 * 32 * 4)


def test_what_never_fits_and_what_always_does() -> None:
    spec = calc.load_model("mistral-7b")
    assert max_batch(spec, asked(), GIB) == 0
    windowed = measured("Mistral-7B-v0.1")
    # All its layers have a window: what an engine keeps, and what it runs at once, has a bound.
    assert max_context(windowed, asked(engine="vllm", execution="compiled"), 40 * GIB) is None


def test_arrays_and_symbols_read_as_ints_do() -> None:
    import sympy

    spec = calc.load_model("llama-3-8b")
    loads = [(1, 100), (7, 5000), (64, 777)]
    for plan in ({}, {"tp": 4, "pp": 2, "engine": "vllm", "execution": "compiled"}, {"execution": "eager"}):
        ints = [[rank.peak for rank in servers(spec, asked(seq, batch, **plan))] for batch, seq in loads]
        batch, seq = np.array(loads).T
        arrays = [rank.peak for rank in servers(spec, asked(seq, batch, **plan))]
        np.testing.assert_allclose(np.array(arrays).T, ints, rtol=1e-12)
    symbols = sympy.symbols("batch seq", positive=True)
    (rank,) = servers(spec, asked(symbols[1], symbols[0]))
    for load in loads:
        values = dict(zip(symbols, load, strict=True))
        assert rank.peak.subs(values) == servers(spec, asked(load[1], load[0]))[0].peak


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_ranks_divide_channels_of_a_convolutions_cache_and_share_what_its_groups_have(tp: int) -> None:
    """Of Mamba-2 with one group: states in fp32 and inputs of x by heads, those of B and C on every rank."""
    mixer = Mamba2(n_heads=80, d_head=64, d_state=128)
    spec = ModelSpec(d_model=2560, vocab_size=64, layers=(LayerGroup(count=64, mixer=mixer),))
    run = Run(mode="inference", execution="compiled", seq=4096, tp=tp)
    (rank,) = memory_ranks(spec, run)
    assert rank.terms["kv_cache"] == 64 * (80 // tp * 64 * 128 * 4 + (80 * 64 // tp + 2 * 128) * 4 * 2)


@pytest.mark.parametrize("plan", [{}, {"pp": 3}, {"engine": "vllm"}])
@pytest.mark.parametrize("name", ["gpt2", "gemma-2-2b"])
@pytest.mark.parametrize("adapter", [Lora(rank=4, targets=("o_proj",)), Bottleneck(width=8), Prompt(length=16)])
def test_an_adapter_adds_a_prompt_to_the_cache_and_nothing_else(
    adapter: Adapter, name: str, plan: dict[str, Any]
) -> None:
    spec = calc.load_model(name)
    beside = spec.model_copy(update={"adapter": adapter})
    more = adapter.length if isinstance(adapter, Prompt) else 0
    assert cache_columns(beside, asked(512, **plan)) == cache_columns(spec, asked(512 + more, **plan))


@pytest.mark.parametrize("execution", ["eager", "sdpa"])
def test_a_prompt_passes_through_all_layers(execution: ExecutionName) -> None:
    """As so many tokens more do; a prefix is only read."""
    spec = calc.load_model("gpt2")
    (plain,) = servers(spec, asked(528, execution=execution))
    (prompted,) = servers(spec.model_copy(update={"adapter": Prompt(length=16)}), asked(512, execution=execution))
    assert prompted.terms["activations"] == plain.terms["activations"]
    (alone,) = servers(spec, asked(512, execution=execution))
    (prefixed,) = servers(spec.model_copy(update={"adapter": Prefix(length=16)}), asked(512, execution=execution))
    more = prefixed.terms["activations"] - alone.terms["activations"]
    assert more > 0 if execution == "eager" else more == 0


@pytest.mark.parametrize("adapter", [Lora(rank=4, targets=("o_proj",)), Bottleneck(width=8)])
def test_what_acts_within_layers_is_refused(adapter: Adapter) -> None:
    spec = calc.load_model("gpt2").model_copy(update={"adapter": adapter})
    with pytest.raises(calc.Refused, match="adapter: expected none that acts within layers"):
        servers(spec, asked(512))


def test_a_weight_of_one_number_is_on_every_rank() -> None:
    """CLIP's temperature."""
    spec = measured("clip-vit-large-patch14")
    alone, divided = (servers(spec, asked(77, tp=tp))[0].terms["weights"] for tp in (1, 2))
    assert alone < 2 * divided < 1.01 * alone


def test_recurrent_layers() -> None:
    """Mamba at its scan: both halves of its first product, one of them convolved, step sizes with B and C and before
    them, the scan; the last product finds these free."""
    spec = ModelSpec(d_model=64, vocab_size=97, layers=(LayerGroup(count=3, mixer=Mamba(d_state=16, dt_rank=4)),))
    (rank,) = servers(spec, asked(50, batch=2, execution="compiled"))
    d_inner = 2 * 64
    inner = 2 * d_inner + d_inner + (4 + 2 * 16) + d_inner + d_inner
    assert rank.moments["prefill, widest moment"]["activations"] == 2 * 100 * (2 * 64 + inner)
    assert rank.terms["kv_cache"] == kv_cache(spec, 2, 50).total_bytes


def test_a_block_that_layers_share() -> None:
    """Its weights are held once, its keys by every layer; the embedded tokens stay to the end. The widest moment is
    where a layer's own update is added to what the matrix of gate and value gives: both, and their sum."""
    spec = calc.load_model("zamba2-2.7b")
    (rank,) = servers(spec, asked(50, execution="compiled"))
    assert rank.terms["weights"] == 2 * sum(parameters(spec).values())
    assert rank.terms["kv_cache"] == kv_cache(spec, 1, 50).total_bytes
    d_model, d_inner, d_ff, states, heads = 2560, 5120, 10240, 2 * 64, 80
    block = d_model + 3 * (2 * d_ff)
    mixer = 2 * d_model + (2 * d_inner + states + heads) + (d_inner + states) + d_model + d_inner
    assert rank.moments["prefill, widest moment"]["activations"] == 2 * 50 * (d_model + max(block, mixer))


def test_mixers_side_by_side() -> None:
    """The second branch finds what the first gave, and reads a multiple of the normed input."""
    mamba, plain = Mamba(d_state=16, dt_rank=4), Attention(n_heads=4, position="none")
    both = Parallel(branches=(Branch(mixer=plain), Branch(mixer=mamba, scale_in=2.0)))

    def widest(mixer: Any) -> Any:
        spec = ModelSpec(d_model=64, vocab_size=97, layers=(LayerGroup(count=3, mixer=mixer),))
        return servers(spec, asked(50, execution="compiled"))[0].moments["prefill, widest moment"]["activations"]

    assert widest(both) == max(widest(plain), widest(mamba) + 2 * 2 * 50 * 64)


@pytest.mark.parametrize(
    ("name", "query", "message"),
    [
        ("llama-3-8b", asked(cp=2), "cp: expected 1 for inference, found 2"),
        ("llama-3-8b", asked(tp=3), "tp: expected a divisor of n_heads = 32, found 3"),
        ("llama-3-8b", asked(pp=33), "pp: expected at most as many stages as layers (32), found 33"),
        ("llama-3-8b", asked(execution="megatron"), "execution: expected eager, sdpa or compiled for inference"),
        ("Qwen3-Next-80B-A3B", asked(engine="vllm"), "engine: expected a model that caches keys and values of its own"),
        ("MiMo-V2-Flash", asked(engine="vllm"), "engine: expected values as wide as keys in layers with a window"),
        *(
            (
                name,
                asked(),
                "execution: expected compiled for inference with recurrent layers (--execution compiled), found sdpa",
            )
            for name in ("Qwen3-Next-80B-A3B", "rwkv7-1.5b", "kimi-linear-48b", "falcon-h1-7b", "zamba2-2.7b")
        ),
    ],
)
def test_refusals(name: str, query: Run, message: str) -> None:
    spec = calc.load_model(name) if name in calc.preset_names() else measured(name)
    with pytest.raises(calc.Refused) as refused:
        servers(spec, query)
    assert str(refused.value).startswith(message)
    with pytest.raises(calc.Refused, match="budget: expected bytes from 0 on"):
        max_batch(spec, query, -1)


def test_how_many_long_sequences_eight_gpus_hold_is_plain_arithmetic() -> None:
    """DeepSeek-V3 in fp8 on eight H200: latents of 61 layers, 512 + 64 numbers of two bytes a token, on every GPU.

    28 fit where a pass of 8,192 tokens runs in fused kernels, as engines run it; operator by operator, what the experts
    write between kernels takes the room of two more.
    """
    spec, room = calc.load_model("deepseek-v3"), calc.load_device("h200").usable
    run = asked(32768, batch=16, tp=8, engine="vllm", dtype="fp8")
    each = 32768 * 61 * (512 + 64) * 2
    for execution, most in ((None, 28), ("compiled", 28), ("sdpa", 26)):
        (rank,) = memory_ranks(spec, run.changed(execution=execution))
        assert rank.terms["kv_cache"] == 16 * each
        left = room - rank.terms["weights"] - rank.terms["activations"]
        assert left // each == most
        assert max_batch(spec, run.changed(execution=execution), room) == most
    # The weights of a rank: an eighth of all that is divided, of which latents' down-projections and routers are not.
    whole = 61 * (7168 * (1536 + 576)) + 58 * 256 * 7168
    total = calc.estimate(spec, "params").value
    assert rank.terms["weights"] == pytest.approx((total - whole) / 8 + whole, rel=1e-3)
