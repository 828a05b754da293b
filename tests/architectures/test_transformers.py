"""Every family's importer against transformers' own model of the same config, built without memory on the meta device.

Counted there: elements of each parameter, FLOPs of matrix products (eager attention) and the bytes of the cache
tensors. Experts run as batched products, since the counter does not know grouped ones.
"""

from __future__ import annotations

import json
from math import prod
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import FAMILIES, from_config  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameter_shapes  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from tests.architectures.cases import BASES, all_cases  # noqa: E402
from tests.architectures.cases_bytes import BYTES  # noqa: E402
from tests.architectures.cases_dense import DENSE, dense_cases  # noqa: E402
from tests.architectures.cases_hearing import HEARING  # noqa: E402
from tests.architectures.cases_latent import LATENT_CASES  # noqa: E402
from tests.architectures.cases_media import MEDIA  # noqa: E402
from tests.architectures.cases_recent import RECENT  # noqa: E402
from tests.architectures.cases_recurrent import RECURRENT  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402
from tests.architectures.cases_vision import ALONE, SEEING  # noqa: E402
from tests.architectures.renaming import compare  # noqa: E402

BATCH, SEQ = 2, 11
# transformers broadcasts the new Falcon architecture's keys and values to all heads before it caches them.
BROADCAST = "new_decoder_architecture"
# Which experts run is data, which the meta device does not have.
LOOPS_OVER_EXPERTS = {"dbrx", "jetmoe"}
# Families whose model class comes with the checkpoint and not with transformers.
REMOTE = {"minicpm"}
CASES = [case for case in (*all_cases(), *dense_cases()) if case[0] not in REMOTE]


class Counted(NamedTuple):
    """What transformers' model of a config holds and does."""

    config: dict[str, Any]
    elements: dict[str, int]
    forward: int
    decode: int
    cache_bytes: int


def counted(model_type: str, config: dict[str, Any]) -> Counted:
    """Build the model in bfloat16; run BATCH x SEQ tokens into an empty cache, then one more of each sequence."""
    tokens = {
        "pad_token_id": None,
        "bos_token_id": 1,
        "eos_token_id": 1,
    }  # some defaults lie outside a small vocabulary
    parsed = transformers.AutoConfig.for_model(model_type, **tokens, **config)
    with torch.device("cpu" if model_type in LOOPS_OVER_EXPERTS else "meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            parsed, attn_implementation="eager", experts_implementation="batched_mm", dtype=torch.bfloat16
        ).eval()
        cache = transformers.DynamicCache(config=model.config)
        whole = count(lambda: model(torch.zeros(BATCH, SEQ, dtype=torch.long), past_key_values=cache, use_cache=True))
        cache_bytes = sum(t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values))
        one = count(lambda: model(torch.zeros(BATCH, 1, dtype=torch.long), past_key_values=cache, use_cache=True))
    elements = {name: parameter.numel() for name, parameter in model.named_parameters()}
    saved = json.loads(parsed.to_json_string(use_diff=False))
    return Counted(saved, elements, whole, one, cache_bytes)


# kimi_k2 is deepseek_v3's architecture under a name that transformers does not know; test_vision has kimi_k25, and
# mistral_large4_text, which has no class that writes. gpt-sw3 is gpt2's. test_real_configs has mimo, which is no family
# of transformers either, and test_gemma3n has gemma3n, as it reads text. test_hearing has what is read of whole
# omnis, their thinkers, and talkers; test_mllama_text the text of Llama 3.2 Vision.
KIMI = {"kimi_k2", "kimi_k25"}
OMNI = {"qwen2_5_omni", "qwen2_5_omni_talker", "qwen3_omni_moe"}
ELSEWHERE = KIMI | OMNI | {"gemma3n", "gpt-sw3", "mimo", "mistral_large4_text", "mllama_text_model", "rwkv7"}


def test_every_family_has_a_case() -> None:
    tested = ELSEWHERE.union(BASES, BYTES, DENSE, LATENT_CASES, RECENT, RECURRENT, TEXT, SEEING, ALONE, HEARING, MEDIA)
    assert tested == set(FAMILIES)


@pytest.mark.parametrize(("model_type", "config"), CASES)
def test_same_as_transformers(model_type: str, config: dict[str, Any]) -> None:
    theirs = counted(model_type, config)
    # The config as people write it; then as transformers saves it: rope_parameters, layer_types, all defaults written.
    for raw in ({"model_type": model_type, **config}, theirs.config):
        spec = from_config(raw)
        ours = {path: prod(shape) for path, shape in parameter_shapes(spec).items()}
        assert compare(theirs.elements, ours, model_type) == {}
        assert forward(spec, Load(batch=BATCH, seq=SEQ)).total == theirs.forward
        assert forward(spec, Load(batch=BATCH, seq=1, context=SEQ)).total == theirs.decode
        if not config.get(BROADCAST):
            assert kv_cache(spec, BATCH, SEQ, "bf16", "cache").total_bytes == theirs.cache_bytes
