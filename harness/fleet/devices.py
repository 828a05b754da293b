"""The devices of a Ray cluster, each of which one actor holds alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from calc.errors import Refused, did_you_mean
from calc.spec.fields import DeviceKind

TYPE = "accelerator_type:"
"""What Ray's resources are called that name a node's kind of GPU."""
SHARE = 0.001
"""Of such a resource, which a node has once however many GPUs it has."""


class Hold(NamedTuple):
    """What an actor asks of the cluster, so that nobody else measures on its device: one GPU with its share of the
    node's cores, or all cores of a node without. kind: of device, by which they are chosen. node: Ray's id of the node
    that has it, "" for any: a hold that names no GPU would also fit a node that another hold means."""

    kind: str
    device: DeviceKind
    cpus: float
    gpus: float
    resources: tuple[tuple[str, float], ...]
    node: str = ""

    def options(self) -> dict[str, Any]:
        """The same as Ray's options of an actor."""
        asked = {"num_cpus": self.cpus, "num_gpus": self.gpus, "resources": dict(self.resources), "max_restarts": 0}
        if not self.node:
            return asked
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return {**asked, "scheduling_strategy": NodeAffinitySchedulingStrategy(self.node, soft=False)}


def holds(nodes: Sequence[dict[str, Any]], wanted: str | None = None) -> list[Hold]:
    """A hold for every device of the nodes that live, as `ray.nodes()` lists them. wanted: a kind, None: all of them.

    Errors: Refused for a kind that no node has, and for a cluster without devices.
    """
    found = [hold for node in nodes if node["Alive"] for hold in _of(node["Resources"], node.get("NodeID", ""))]
    kinds = sorted({hold.kind for hold in found})
    if wanted is not None and wanted not in kinds:
        raise Refused("--type", f"one of {', '.join(kinds) or 'none'}{did_you_mean(wanted, kinds)}", wanted)
    found = [hold for hold in found if wanted in (None, hold.kind)]
    if not found:
        raise Refused("--ray", "a cluster whose nodes have cores or GPUs", "none")
    return found


def _of(resources: dict[str, float], node: str) -> Iterator[Hold]:
    gpus, cpus = int(resources.get("GPU", 0)), resources.get("CPU", 0.0)
    named = sorted(name for name in resources if name.startswith(TYPE))
    kind = named[0].removeprefix(TYPE) if named else "gpu" if gpus else "cpu"
    own = tuple((name, SHARE) for name in named[:1])
    for _ in range(gpus):
        yield Hold(kind, "cuda", max(1.0, cpus // gpus) if cpus else 0.0, 1.0, own, node)
    if not gpus and cpus >= 1:
        yield Hold(kind, "cpu", cpus, 0.0, own, node)
