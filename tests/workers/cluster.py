"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STORE = 80 * 2**20
"""Bytes of a node's store of objects: the least that Ray takes is 75 MiB."""
NOTICING = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 4,
}
"""A node that is dead is noticed within seconds, not the usual fifteen."""


@contextmanager
def cluster(*cores: int, **resources: float) -> Iterator[Any]:
    """Nodes with so many cores each, the head first, whose own resources are those named."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": cores[0], "include_dashboard": False, "object_store_memory": STORE, "_system_config": NOTICING}
    made = Cluster(initialize_head=True, head_node_args={**head, "resources": resources})
    try:
        for each in cores[1:]:
            made.add_node(num_cpus=each, object_store_memory=STORE)
        made.wait_for_nodes()
        yield made
    finally:
        made.shutdown()
