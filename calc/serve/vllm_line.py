"""Options of `vllm serve` that say what was planned, which tools that run vLLM take too."""

from __future__ import annotations

from calc.errors import Refused
from calc.serve.service import Service
from calc.spec.run.engines import engine_named
from calc.time.cluster.links import node_of

MADE = ("fp8",)
"""Formats that an engine makes of a plain checkpoint when it starts (--quantization)."""


def vllm_options(service: Service, longest: int, running: int) -> str:
    """What one server is told (docs.vllm.ai, CLI reference, engine arguments). running: sequences of all its ranks of
    attention, each of which counts its own (Data Parallel Deployment)."""
    layout = service.layout
    words = [
        f"--tensor-parallel-size {layout.tp}",
        f"--pipeline-parallel-size {layout.pp}" * (layout.pp > 1),
        f"--data-parallel-size {layout.attention_dp}" * (layout.attention_dp > 1),
        "--enable-expert-parallel" * (layout.ep > 1),
        *quantized(service),
        f"--max-model-len {longest}",
        f"--max-num-seqs {-(-running // layout.attention_dp)}",
        f"--max-num-batched-tokens {service.budget}",
        f"--gpu-memory-utilization {service.engine.memory_fraction}",
        f"--kv-cache-dtype {cache_word('vllm', service)}",
    ]
    return " ".join(filter(None, words))


def over_machines(service: Service) -> list[str]:
    """What has one line start ranks on all machines of a Ray cluster, where one machine does not have them all
    (docs.vllm.ai, Parallelism and Scaling, Data Parallel Deployment)."""
    layout, node = service.layout, node_of(service.device.name)
    if layout.gpus_each <= node:
        return []
    if layout.attention_dp == 1:
        return ["--distributed-executor-backend ray"]
    here = node // (layout.tp * layout.pp)
    return ["--data-parallel-backend ray", *([f"--data-parallel-size-local {here}"] if here else [])]


def spanning(service: Service) -> list[str]:
    """What is set where each of several ranks of attention takes more than a machine."""
    layout = service.layout
    wide = layout.attention_dp > 1 and layout.tp * layout.pp > node_of(service.device.name)
    return ["VLLM_RAY_DP_PACK_STRATEGY=span"] if wide else []


def quantized(service: Service) -> list[str]:
    """Weights that the engine packs itself when it loads a checkpoint in a plain format."""
    return [f"--quantization {service.form.name}"] if service.form.name in MADE else []


def cache_word(engine: str, service: Service) -> str:
    """What an engine calls the format of the planned cache. Errors: Refused where it has no word for it."""
    words = engine_named(engine).cache_words
    if service.cache not in words:
        raise Refused("--as", f"a cache in {' or '.join(words)} under {engine}", service.cache)
    return words[service.cache]
