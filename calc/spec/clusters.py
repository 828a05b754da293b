"""The clusters of calc/data/clusters, finding one by name, and reading one's own."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from calc.errors import Refused, did_you_mean
from calc.reading.files import parse_toml, read_text
from calc.spec.catalogue import load_device, sourced
from calc.spec.cluster import Cluster
from calc.spec.fields import refuse

CLUSTERS = Path(__file__).parents[1] / "data" / "clusters"


def cluster_names() -> list[str]:
    """The names of the clusters that are known, sorted."""
    return sorted(_known())


def load_cluster(reference: str) -> Cluster:
    """The cluster that `reference` names, or the one that a TOML file describes.

    Errors: Refused for an unknown name, with the nearest ones, and for a file that is none.
    """
    if reference.endswith(".toml"):
        return _of_file(reference)
    known = _known()
    if reference.lower() in known:
        return known[reference.lower()]
    names = sorted(known)
    raise Refused(
        "cluster", f"one of {', '.join(names)}, or a TOML file{did_you_mean(reference, names)}", reference[:80]
    )


def read_clusters(text: str, where: str) -> list[Cluster]:
    """The clusters that a file describes: [sources.KEY] tables, and [clusters.NAME] whose figures name one of them.

    Errors: Refused, the field led by `where`.
    """
    table = parse_toml(text, where)
    for key in sorted(table.keys() - {"sources", "clusters"}):
        raise Refused(f"{where}: {key}", "one of sources, clusters", "an unknown key")
    if not isinstance(table.get("clusters"), dict) or not isinstance(table.get("sources"), dict):
        raise Refused(where, "tables [sources] and [clusters]", "something else")
    return [_cluster(name, own, table["sources"], where) for name, own in table["clusters"].items()]


def _cluster(name: str, own: Any, sources: dict[str, Any], where: str) -> Cluster:
    place = f"{where}: {name}"
    if not isinstance(own, dict):
        raise Refused(place, "a table", own)
    fast = own.get("fast")
    if not isinstance(fast, str) or fast not in sources:
        raise Refused(f"{place}: fast", f"one of {', '.join(sources)}", fast)
    document = _domain(own) | sourced(own, sources, place) | {"name": name, "fast": sources[fast]}
    try:
        made = Cluster.model_validate_json(json.dumps(document, default=str))
    except ValidationError as error:
        raise refuse(error, place) from None
    if not made.measured:
        # What was measured may be of processors, which no catalogue lists.
        load_device(made.gpu)
    return made


def _domain(own: dict[str, Any]) -> dict[str, Any]:
    """The domain of fast links that the device says, where the cluster says none."""
    if "domain" in own or not isinstance(own.get("gpu"), str):
        return {}
    joined = load_device(own["gpu"]).domain
    return {} if joined is None else {"domain": joined.value}


def adapter_of(device: str) -> float | None:
    """Bytes a second, one way, with which a GPU leaves its domain in the best linked of the known clusters of such
    devices; None where none is known."""
    shares = (made.share for made in _known().values() if made.gpu == device)
    return max((share for share in shares if share is not None), default=None)


def machine_of(device: str) -> int | None:
    """GPUs of a machine of the known clusters of such devices, the fewest; None where none is known."""
    return min((made.node for made in _known().values() if made.gpu == device), default=None)


@cache
def _known() -> dict[str, Cluster]:
    files = sorted(CLUSTERS.glob("*.toml"))
    return {made.name: made for path in files for made in read_clusters(read_text(path), path.stem)}


@cache
def _of_file(reference: str) -> Cluster:
    """The first cluster of a file of one's own."""
    path = Path(reference)
    if not path.is_file():
        raise Refused("cluster", "a name that `clusters` lists, or a TOML file", reference[:80])
    found = read_clusters(read_text(path), path.name)
    if len(found) != 1:
        raise Refused(path.name, "one [clusters.NAME]", len(found))
    return found[0]
