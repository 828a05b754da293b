"""Collectives as they were measured on a cluster of one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from calc.spec.cluster import Cluster
from calc.time.models.collective import CollectiveModel, Curve

if TYPE_CHECKING:
    from calc.time.device.speed import Speed


def measured_models(cluster: Cluster, ranks: int) -> dict[str, CollectiveModel]:
    """The collectives among so many ranks, by their names; those that were not measured are left out."""
    return {
        each.op: CollectiveModel(
            op=each.op,
            kernel_source=cluster.name,
            points=len(each.sizes),
            sizes=tuple(map(float, each.sizes)),
            curves=(Curve(gpus=each.ranks, seconds=each.seconds),),
        )
        for each in cluster.measured
        if each.ranks == ranks
    }


def with_measured(speed: Speed, cluster: Cluster | None) -> Speed:
    """A device whose collectives within a domain are those of its cluster, where these were measured."""
    if cluster is None or not any(each.near == each.ranks for each in cluster.measured):
        return speed
    within = max(each.ranks for each in cluster.measured if each.near == each.ranks)
    return replace(speed, collectives={**speed.collectives, **measured_models(cluster, within)})
