"""What starts several servers at once, all of vLLM: Dynamo's lines and values of llm-d's chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calc.serve.service import Service
from calc.serve.vllm_line import vllm_options
from calc.time.cluster.links import node_of

DYNAMO = "1.4"
"""The release whose options were read: --disaggregation-mode is of February 2026 (ai-dynamo/dynamo#6483), and the
flags that it replaces are gone since July 2026 (#12089)."""
TRANSFER = '--kv-transfer-config \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''
"""How a cache gets from who reads to who answers (ai-dynamo/dynamo, examples/backends/vllm/launch/disagg.sh)."""
FIRST_PORT, PORTS = 20100, 100
"""Of NIXL's side channel, of which each worker of a machine has its own and each of its ranks the next."""


def dynamo(model: str, services: Sequence[Service], longest: int, running: Sequence[int]) -> list[str]:
    """Dynamo's front end and its vLLM workers (docs.nvidia.com/dynamo, vLLM backend), each on GPUs of its own; a
    comment stands where the next machine begins."""
    lines = ["python -m dynamo.frontend --http-port 8000"]
    workers = [(i, service) for i, service in enumerate(services) for _ in range(service.layout.replicas)]
    apart, before = len(services) > 1, 1
    for number, ((i, service), (machine, gpus)) in enumerate(zip(workers, _places(workers), strict=True)):
        if machine != before:
            lines.append(f"# on machine {machine}:")
            before = machine
        words = [f"python -m dynamo.vllm --model {model}", vllm_options(service, longest, running[i])]
        if gpus:
            words.insert(0, f"CUDA_VISIBLE_DEVICES={gpus}")
        if apart:
            words.insert(0, f"VLLM_NIXL_SIDE_CHANNEL_PORT={FIRST_PORT + PORTS * number}")
            words += [f"--disaggregation-mode {'decode' if i else 'prefill'}", TRANSFER]
        lines.append(" ".join(words))
    return lines


def _places(workers: Sequence[tuple[int, Service]]) -> Iterator[tuple[int, str]]:
    """Of each worker the machine, from 1, and its GPUs there; no GPUs where it takes all of several machines."""
    machine, taken = 1, 0
    for _, service in workers:
        node, needed = node_of(service.device.name), service.layout.gpus_each
        if taken and taken + needed > node:
            machine, taken = machine + 1, 0
        yield machine, "" if needed > node else ",".join(map(str, range(taken, taken + needed)))
        taken += needed
        if needed > node:  # the next worker begins on a machine that this one has left free
            machine, taken = machine + -(-needed // node), 0


def llm_d(model: str, services: Sequence[Service], longest: int, running: Sequence[int]) -> list[str]:
    """Values of llm-d's chart `llm-d-modelservice`. Arguments are strings, as Kubernetes has them, numbers too."""
    lines = ["modelArtifacts:", f"  name: {model}", f"  uri: hf://{model}"]
    names = ("prefill", "decode") if len(services) > 1 else ("decode",)
    for i, (name, service) in enumerate(zip(names, services, strict=True)):
        layout = service.layout
        lines += [
            f"{name}:",
            "  create: true",
            f"  replicas: {layout.replicas}",
            f"  parallelism: {{tensor: {layout.tp}, data: {layout.attention_dp}}}",
            "  containers:",
            "    - name: vllm",
            "      modelCommand: vllmServe",
            "      args:",
            *(f'        - "{word}"' for word in vllm_options(service, longest, running[i]).split()),
        ]
    return lines
