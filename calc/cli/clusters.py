"""`clusters`: the clusters that are known, and what is known of one."""

from __future__ import annotations

from typing import Any

import click

from calc.cli import options
from calc.output.tables import Table, emit
from calc.spec.cluster import Cluster
from calc.spec.clusters import cluster_names, load_cluster
from calc.units import si


@click.command(short_help="Clusters: GPUs a node, domains of fast links, network cards.")
@click.argument("name", required=False)
@options.output
def clusters(name: str | None, fmt: str) -> None:
    """List the clusters that `predict --cluster` takes, or those figures of NAME with their sources.

    NAME may be a TOML file of one's own, with [sources.KEY] and [clusters.NAME] as in calc/data/clusters.

    \b
    Examples:
      python -m calc clusters
      python -m calc clusters gb200-nvl72
    """
    if name is None:
        known = [load_cluster(each) for each in cluster_names()]
        rows = [_row(each) for each in known]
        columns = ("cluster", "GPU", "node", "domain", "share of a GPU")
        note = "node, domain: GPUs of one host, and on the fast links; share: bytes a second beyond, one direction"
        emit([_record(each) for each in known], [Table(columns, rows, "", note)], fmt)
        return
    one = load_cluster(name)
    figures = [(key, _figure(key, value)) for key, value in _record(one).items() if key != "sources" and value != ""]
    sources = [(each.document, each.where, str(each.read)) for each in one.sources]
    tables = [Table(("figure", "value"), figures), Table(("source", "where", "read"), sources)]
    emit([_record(one)], tables, fmt)


def _figure(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name == "host_memory":
        return si(value, "B")
    return si(value, "B/s") if name in ("card", "share", "host_bandwidth") else str(value)


def _row(one: Cluster) -> tuple[str, ...]:
    share = "–" if one.share is None else si(one.share, "B/s")
    return one.name, one.gpu, str(one.node), f"{one.domain:,}", share


def _record(one: Cluster) -> dict[str, Any]:
    return {
        "cluster": one.name,
        "title": one.title,
        "gpu": one.gpu,
        "node": one.node,
        "domain": one.domain,
        "cards": one.cards,
        "card": None if one.card is None else one.card.rate,
        "oversubscription": one.oversubscription,
        "share": one.share,
        "host": one.host and one.host.name,
        "host_memory": one.host and one.host.memory,
        "host_bandwidth": one.host and one.host.bandwidth,
        "note": one.note,
        "sources": [
            {"document": each.document, "where": each.where, "url": each.url, "confirmed": each.confirmed}
            for each in one.sources
        ],
    }
