"""Command lines that start what was planned: each engine's own options, by its documentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from calc.errors import Refused
from calc.serve.orchestrating import DYNAMO, dynamo, llm_d
from calc.serve.service import Service
from calc.serve.support import check_support
from calc.serve.vllm_line import MADE, cache_word, over_machines, quantized, spanning, vllm_options
from calc.spec.hardware import Device
from calc.spec.run.engines import Engine, engine_named
from calc.time.cluster.links import node_of

Lines = list[str]


def launch(tool: str, model: str, services: Sequence[Service], longest: int, running: Sequence[int]) -> Lines:
    """The lines that start a service, or one that reads prompts and one that makes answers.

    tool: one of TOOLS. longest: tokens of a mean sequence; there is room for a tenth more. running: sequences at once,
    of each service.
    Errors: Refused for an unknown tool, for prompts apart where it has no word for them, and as `check_launch`.
    """
    if tool not in TOOLS:
        raise Refused("--as", f"one of {', '.join(TOOLS)}", tool)
    for service in services:
        check_launch(tool, service)
    if len(services) > 1:
        check_apart(tool)
    return TOOLS[tool](model, services, math.ceil(ROOM * longest), running)


def check_apart(tool: str) -> None:
    """Errors: Refused for a tool that has no word for prompts and answers on GPUs of their own."""
    if tool not in REPLICATED:
        raise Refused("--as", f"{' or '.join(REPLICATED)} where prompts and answers have GPUs of their own", tool)


def check_launch(tool: str, service: Service) -> None:
    """Errors: Refused for a service that the tool does not start: a layout that it has no word for, a format of the
    cache that its engine has none for, and a device or a format that its engine does not start in."""
    layout = service.layout
    if tool == "llm-d" and (layout.pp > 1 or layout.tp > node_of(service.device.name)):
        raise Refused("--as", f"one of {', '.join(JOINED)} for a pipeline or tp beyond a machine", tool)
    if tool == "trtllm" and layout.attention_dp > 1:
        raise Refused("--as", "vllm or sglang for attention_dp above 1, which takes a file of options here", "trtllm")
    _check_engine(tool, service)
    cache_word(_engine(tool).name, service)


def _check_engine(tool: str, service: Service) -> None:
    """Errors: Refused for a plan of another engine that the one below the tool does not start."""
    if isinstance(service.device, Device):
        try:
            check_support(_engine(tool), service.device, service.form, service.cache)
        except Refused as error:
            lacks = "run" if error.field == "--engine" else f"load {error.found}"
            unable = f"{_engine(tool).title} does not {lacks} on {service.device.name}"
            raise Refused("--as", f"what starts {service.engine.name}, as planned: {unable}", tool) from None


def cautions(tool: str, services: Sequence[Service]) -> Iterator[str]:
    """What the lines leave to who starts them, one sentence each."""
    first, last, engine = services[0], services[-1], _engine(tool)
    form, plain = first.form.name, first.form.name in PLAIN
    if not plain and not (form in MADE and tool in MAKERS):
        yield f"planned in {form}: name a checkpoint in that format, or other weights are loaded than were planned"
    if not plain and engine.cache_words.get(first.cache) == "auto":
        yield f"keys and values are planned in {first.cache}: a checkpoint that names another format for them gets that"
    if engine.cache_since and engine.cache_words.get(first.cache) not in (None, "auto"):
        since = f"{engine.title} {engine.cache_since}"
        yield f"keys and values in {first.cache} are asked for by an option that {since} brought"
    if last.guessing.tokens:
        guessed = f"planned with {last.guessing.tokens} tokens guessed a step, and started without"
        yield f"{guessed}: name what guesses them by {engine.speculation}"
    if not last.spec.decodes and tool not in WHOLE:
        yield f"{last.spec.name} {last.spec.why_whole}: it is not known whether {tool} starts such a model"
    if tool == "dynamo":
        yield f"the lines are of Dynamo {DYNAMO}"
    if engine.name != last.engine.name:
        yield f"planned under {last.engine.name}, and not under {engine.name}"
    if beyond := [each.layout.gpus_each for each in services if each.layout.gpus_each > node_of(each.device.name)]:
        yield f"one server of {max(beyond)} GPUs stands on several machines: {JOINED.get(tool, GROUPED)}"


def _engine(tool: str) -> Engine:
    """What runs the model below a tool."""
    return engine_named(tool if tool in ("sglang", "trtllm") else "vllm")


PLAIN = ("bf16", "fp16", "fp32")
"""Formats of weights as most checkpoints have them."""
MAKERS = ("vllm", "sglang", "dynamo", "llm-d")
JOINED = {
    "vllm": "start a Ray cluster over them first, by which the line reaches their GPUs",
    "sglang": "start the line on each, with --nnodes, --node-rank and the first one's --dist-init-addr",
    "trtllm": "start the line behind trtllm-llmapi-launch, a task for each GPU, by mpirun or srun",
    "dynamo": "start a worker's line on each, with --nnodes, --node-rank and the first one's --master-addr",
}
"""How what starts a server joins machines, by its documentation (vLLM, Parallelism and Scaling; SGLang, Multi-Node
Deployment; TensorRT-LLM, trtllm-serve; Dynamo, Multi-Node Deployment)."""
GROUPED = "set multinode: true, so that LeaderWorkerSet joins them"
"""How llm-d's chart does, whose machines share no attention: "multi-node inference, utilizing data parallelism"."""
REPLICATED = ("dynamo", "llm-d")
"""What starts as many servers as a service has replicas; the others start one."""
WHOLE = {"vllm": "--runner pooling", "sglang": "--is-embedding"}
"""What tells an engine to serve a model that generates nothing (vLLM, Pooling Models; SGLang, server arguments)."""
ROOM = 1.1
"""Of a sequence's mean length: `serve` scatters lengths by a tenth."""


def _vllm(model: str, services: Sequence[Service], longest: int, running: Sequence[int]) -> Lines:
    service = services[0]
    words = [vllm_options(service, longest, running[0]), *over_machines(service), *_whole("vllm", service)]
    return [" ".join((*spanning(service), "vllm serve", model, *words))]


def _whole(engine: str, service: Service) -> Lines:
    """What tells an engine that a model generates nothing."""
    return [] if service.spec.decodes else [WHOLE[engine]]


def _sglang(model: str, services: Sequence[Service], longest: int, running: Sequence[int]) -> Lines:
    """Options of `sglang.launch_server` (docs.sglang.ai, server arguments): its tp counts all ranks of a stage."""
    service = services[0]
    layout = service.layout
    words = [
        f"python -m sglang.launch_server --model-path {model}",
        f"--tp-size {layout.wide}",
        f"--pp-size {layout.pp}" * (layout.pp > 1),
        f"--dp-size {layout.attention_dp} --enable-dp-attention" * (layout.attention_dp > 1),
        f"--ep-size {layout.ep}" * (layout.ep > 1),
        *quantized(service),
        f"--context-length {longest}",
        f"--max-running-requests {running[0]}",
        f"--chunked-prefill-size {service.budget}",
        f"--mem-fraction-static {service.engine.memory_fraction}",
        f"--kv-cache-dtype {cache_word('sglang', service)}",
        *_whole("sglang", service),
    ]
    return [" ".join(filter(None, words))]


def _cache_told(service: Service) -> Lines:
    """The format of keys and values, where it is not the default: releases before 1.3 have no such option."""
    word = cache_word("trtllm", service)
    return [f"--kv_cache_dtype {word}"] if word != "auto" else []


def _trtllm(model: str, services: Sequence[Service], longest: int, running: Sequence[int]) -> Lines:
    """Options of `trtllm-serve serve` (nvidia.github.io/TensorRT-LLM, trtllm-serve)."""
    service = services[0]
    layout = service.layout
    words = [
        f"trtllm-serve {model}",
        f"--tp_size {layout.tp} --pp_size {layout.pp}",
        f"--ep_size {layout.ep}" * (layout.ep > 1),
        f"--max_batch_size {running[0]} --max_num_tokens {service.budget} --max_seq_len {longest}",
        f"--kv_cache_free_gpu_memory_fraction {service.engine.memory_fraction}",
        *_cache_told(service),
    ]
    return [" ".join(filter(None, words))]


TOOLS: dict[str, Callable[[str, Sequence[Service], int, Sequence[int]], Lines]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "trtllm": _trtllm,
    "dynamo": dynamo,
    "llm-d": llm_d,
}
"""What can start a service -> how."""
