"""Byte latent transformers against transformers' own class: parameters, FLOPs, caches, what they give.

Where patches end is a matter of the text: transformers is told so (`patch_lengths`), a first patch of one byte and
others of patch_size, as here; what it runs to find ends by itself is counted apart.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy
import pytest
import sympy

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.conventions import flops  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameter_shapes, weights  # noqa: E402
from calc.spec import ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.spec.resizing import symbolic  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from calc.time import predict  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models import build  # noqa: E402
from tests.architectures.cases_bytes import BLT, BYTES, within  # noqa: E402
from tests.architectures.their_models import held  # noqa: E402
from tests.test_three_readings import numbers_in  # noqa: E402

BATCH, SEQ = 2, 23
each_case = pytest.mark.parametrize("config", BYTES["blt"], ids=["as usual", "narrow", "three vectors"])
RULES = (
    (r"self_attn\.", "attention."),
    (r"input_layernorm", "attention_norm"),
    (r"post_attention_layernorm", "channel_norm"),
    (r"^patcher\.embed_tokens", "patcher.embedding.token"),
    (r"^patcher\.norm", "patcher.final_norm"),
    (r"^patcher\.lm_head", "patcher.entropies.dense"),
    (r"^local_encoder\.embed_tokens", "embedding.token"),
    (r"^encoder_hash_tok_embedding", "embedding.hash"),
    (r"^local_encoder\.patch_embedding_projection", "patches.global.project"),
    (r"^local_encoder\.cross_attn_layers\.0", "patches.global.attention"),
    (r"^global_transformer\.token_embedding_projection", "patches.global.widen"),
    (r"^local_decoder\.patch_embedding_projection", "patches.decoder.project"),
    (r"^local_decoder\.norm", "final_norm"),
)


def renamed(name: str, spec: ModelSpec) -> str:
    """Our path of the tensor that transformers calls `name`."""
    counts = [group.count for group in spec.layers]
    starts = {"local_encoder": 0, "global_transformer": counts[0], "local_decoder": counts[0] + counts[1]}
    path = name.removeprefix("model.")
    if place := re.match(r"(\w+)\.(layers|cross_attn_layers)\.(\d+)\.", path):
        start = starts.get(place[1])
        reads = place[2] == "cross_attn_layers"
        if start is not None and not (reads and place[1] == "local_encoder"):
            inner = "patch_attention." if reads else ""
            path = f"layers.{start + int(place[3])}.{inner}{path[place.end() :]}"
    for theirs, ours in RULES:
        path = re.sub(theirs, ours, path)
    return path


def theirs(config: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    parsed = transformers.BltConfig(**json.loads(json.dumps(config)))
    return transformers.BltForCausalLM._from_config(parsed, attn_implementation="eager")


def lengths(spec: ModelSpec, seq: int) -> Any:
    """[batch, patches]: of one byte, of as many as usual each, and of those that are left."""
    patched = spec.layers[1].patched
    assert patched is not None
    found = torch.full((BATCH, int(patched.count(seq))), patched.length)
    found[:, 0] = 1
    found[:, -1] += seq - found[0].sum()
    return found


def spent(model: Any, tokens: Any) -> int:
    """FLOPs of what says where patches end, where there is such."""
    patcher = model.model.patcher
    return 0 if patcher is None else count(lambda: patcher(tokens, patch_size=3, threshold=1.0))


@each_case
def test_same_as_transformers(config: dict[str, Any]) -> None:
    model, tokens = theirs(config), torch.randint(3, 97, (BATCH, SEQ))
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    saved = json.loads(model.config.to_json_string(use_diff=False))
    caches = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
    told = lengths(from_config({"model_type": "blt", **config}), SEQ)
    once = count(lambda: model(tokens, patch_lengths=told, use_cache=False))
    both = count(lambda: model(tokens, patch_lengths=told, use_cache=False).logits.sum().backward())
    for raw in ({"model_type": "blt", **config}, saved):
        spec = from_config(raw)
        assert {renamed(name, spec): shape for name, shape in shapes.items()} == parameter_shapes(spec)
        frozen = {path for path, parameter in model.named_parameters() if not parameter.requires_grad}
        assert {renamed(path, spec) for path in frozen} == {
            path for path, shape in parameter_shapes(spec).items() if path.startswith("patcher.")
        }
        assert all(weight.trainable is not path.startswith("patcher.") for path, weight, _ in weights(spec))
        apart, load = spent(model, tokens), Load(batch=BATCH, seq=SEQ)
        assert forward(spec, load).total == apart + once
        assert training(spec, load).total == apart + both
    found = model(tokens, patch_lengths=told, use_cache=True, past_key_values=caches)
    assert kv_cache(spec, BATCH, SEQ, "fp32", "cache").total_bytes == held(found.past_key_values)


@each_case
@pytest.mark.parametrize("seq", [1, 2, 4, SEQ])
@torch.no_grad()
def test_same_logits(config: dict[str, Any], seq: int) -> None:
    spec, model = from_config({"model_type": "blt", **config}), theirs(config).eval()
    ours = build(spec).eval()
    mine = dict(ours.named_parameters())
    assert {name: tuple(p.shape) for name, p in mine.items()} == parameter_shapes(spec)
    for name, tensor in model.named_parameters():
        mine.pop(renamed(name, spec)).copy_(tensor.normal_(std=0.3))
    assert not mine
    tokens = torch.randint(3, 97, (BATCH, seq))
    expected = model(tokens, patch_lengths=lengths(spec, seq), use_cache=False).logits
    assert expected.std() > 0.1
    for kernel in ("eager", "sdpa"):
        torch.testing.assert_close(ours(tokens, kernel=kernel).logits, expected, rtol=1e-4, atol=1e-4)
    if spec.patcher is not None:
        scores = model.model.patcher(tokens, patch_size=3, threshold=1.0)[2]
        options = {"kernel": "eager", "checkpointing": "none", "dropout": 0.0, "need_weights": False}
        torch.testing.assert_close(ours._patch(tokens, options), scores, rtol=1e-4, atol=1e-4)


def test_no_byte_sees_those_to_come() -> None:
    """A byte reads the last patch that has ended by it: later bytes change nothing of what is said of those before."""
    model = build(from_config({"model_type": "blt", **BLT})).eval()
    tokens = torch.randint(3, 97, (1, SEQ))
    with torch.no_grad():
        whole = model(tokens).logits
        for seq in (1, 2, 5, 9):
            torch.testing.assert_close(model(tokens[:, :seq]).logits, whole[:, :seq])


@pytest.mark.parametrize("how", ["none", "selective", "full"])
def test_flops_of_the_twin(how: Any) -> None:
    spec = from_config({"model_type": "blt", **BLT})
    model, tokens = build(spec), torch.randint(3, 97, (BATCH, SEQ))
    both = count(lambda: model(tokens, checkpointing=how).logits.sum().backward())
    assert training(spec, Load(batch=BATCH, seq=SEQ), how).total == both


@pytest.mark.parametrize(
    ("config", "scores"), list(zip(BYTES["blt"], ("full", "causal-exact", "causal-half"), strict=True))
)
def test_formulas_and_arrays_give_the_exact_ints(config: dict[str, Any], scores: Any) -> None:
    spec = from_config({"model_type": "blt", **config})
    seqs = [1, 2, 5, SEQ]
    exact = [(forward(spec, Load(BATCH, n, scores=scores)).total, *trained(spec, n, scores)) for n in seqs]
    symbols, values = symbolic(spec)
    seq = sympy.Symbol("seq", positive=True)
    formulas = (forward(symbols, Load(BATCH, seq, scores=scores)).total, *trained(symbols, seq, scores))
    assert [tuple(numbers_in(formulas, values | {seq: n})) for n in seqs] == exact
    column = numpy.array(seqs, dtype=float)
    together = (forward(spec, Load(BATCH, column, scores=scores)).total, *trained(spec, column, scores))
    assert list(zip(*(each.tolist() for each in together), strict=True)) == exact


def trained(spec: ModelSpec, seq: Any, scores: Any) -> list[Any]:
    """FLOPs of a step, with nothing computed again and with scores."""
    return [training(spec, Load(BATCH, seq, scores=scores), how).total for how in ("none", "selective")]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (BLT | {"encoder_config": None}, "encoder_config"),
        (BLT | {"patching_mode": "space"}, "patching_mode"),
        (BLT | {"patch_size": None}, "patch_size"),
        (BLT | {"max_patch_length": 2}, "max_patch_length"),
        (BLT | {"cross_attn_k": 3}, "encoder_config.cross_attn_k"),
        (BLT | {"encoder_hash_byte_group_size": [0, 3]}, "encoder_hash_byte_group_size"),
        (within("encoder", cross_attn_all_layers=True), "encoder_config.cross_attn_all_layers"),
        (within("encoder", vocab_size=98), "encoder_config.vocab_size"),
        (within("decoder", hidden_size=32), "decoder_config.hidden_size"),
        (within("decoder", hidden_size_global=32), "decoder_config.hidden_size_global"),
        (within("global", num_key_value_heads=3), "global_config.num_key_value_heads"),
        (within("global", head_dim=8), "global_config.head_dim"),
        (within("patcher", vocab_size=98), "patcher_config.vocab_size"),
        (within("patcher", hidden_act="gelu"), "patcher_config.hidden_act"),
    ],
)
def test_refused(config: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as caught:
        from_config({"model_type": "blt", **config})
    assert caught.value.field == field


def test_what_a_new_byte_changes_is_not_described() -> None:
    spec = from_config({"model_type": "blt", **BLT})
    assert not spec.decodes
    for asked, field in (
        (Run(phase="decode", seq=9), "phase"),
        (Run(phase="prefill", seq=9), "phase"),
        (Run(phase="training", seq=9, convention="megatron"), "convention"),
        (Run(phase="training", seq=9, document=3), "document"),
    ):
        with pytest.raises(Refused) as caught:
            flops(spec, asked)
        assert caught.value.field == field, asked
    with pytest.raises(Refused, match="makes patches of its bytes"):
        predict(spec, "h100-sxm", phase="decode")
    with pytest.raises(Refused, match="context"):
        forward(spec, Load(seq=1, context=5))


def test_published_sizes() -> None:
    """Those that transformers' classes take by default, of itazap/blt-1b-hf: tables of 500,002 hashes for groups of 3
    to 8 bytes."""
    sizes: dict[str, Any] = {
        "encoder_config": {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 1},
        "decoder_config": {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 9},
        "global_config": {"hidden_size": 2048, "num_attention_heads": 16, "num_hidden_layers": 25},
        "patcher_config": {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 14},
    }
    spec = from_config({"model_type": "blt", **sizes})
    with torch.device("meta"):
        model = transformers.BltForCausalLM(transformers.BltConfig(**sizes))
    shapes = {renamed(name, spec): tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == parameter_shapes(spec)
    assert shapes["embedding.hash.weight"] == (6 * 500_002, 1024)
