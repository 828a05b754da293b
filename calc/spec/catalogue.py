"""The catalogue of GPUs and TPUs: the files of calc/data/hardware, and finding a device by name."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from calc.errors import Refused
from calc.spec.fields import refuse
from calc.spec.hardware import Device

HARDWARE = Path(__file__).parents[1] / "data" / "hardware"


def device_names() -> list[str]:
    """The names of the devices in the catalogue, sorted."""
    return sorted(_catalogue())


def load_device(reference: str) -> Device:
    """The device that `reference` names: its name or an alias, in any case, with spaces or hyphens.

    A shorter name is taken where only one device goes by it: `h100` is refused, because SXM, PCIe and NVL differ.
    Errors: Refused, naming the variants or the nearest names.
    """
    key = _normal(reference)
    named = _named()
    if key in named:
        return named[key]
    parts = set(key.split("-"))
    variants = [name for name in device_names() if name.split("-")[0] in parts and parts <= set(name.split("-"))]
    if len(variants) == 1:
        return _catalogue()[variants[0]]
    if variants:
        raise Refused("GPU", f"one of {', '.join(variants)}, which differ", reference[:80])
    raise Refused("GPU", f"a device of the catalogue{_nearest(key, named)}", reference[:80] or "''")


def devices_of(table: dict[str, Any], where: str) -> list[Device]:
    """The devices that a file of the catalogue describes.

    [sources.KEY] tables say where figures are from and each figure names one; [common] holds what all devices of the
    file share; [devices.NAME] what is their own. Errors: Refused, the field led by `where`.
    """
    for key in sorted(table.keys() - {"sources", "common", "devices"}):
        raise Refused(f"{where}: {key}", "one of sources, common, devices", "an unknown key")
    if not isinstance(table.get("devices"), dict) or not isinstance(table.get("sources"), dict):
        raise Refused(where, "tables [sources] and [devices]", "something else")
    return [_device(name, own, table, where) for name, own in table["devices"].items()]


@cache
def _catalogue() -> dict[str, Device]:
    import tomllib

    # Files of the package need no bounds of time and memory, which take a third of the time of reading them.
    tables = ((path.stem, tomllib.loads(path.read_text(encoding="utf-8"))) for path in sorted(HARDWARE.glob("*.toml")))
    return {device.name: device for where, table in tables for device in devices_of(table, where)}


@cache
def _named() -> dict[str, Device]:
    """Every name and alias, as `_normal` has it: pages ask for dozens of devices whenever they are drawn."""
    return {_normal(name): device for device in _catalogue().values() for name in (device.name, *device.aliases)}


def _device(name: str, own: Any, table: dict[str, Any], where: str) -> Device:
    place = f"{where}: {name}"
    if not isinstance(own, dict):
        raise Refused(place, "a table", own)
    merged = _merged(table.get("common", {}), own) | {"name": name}
    document = json.dumps(sourced(merged, table["sources"], place), default=str)
    try:
        return Device.model_validate_json(document)
    except ValidationError as error:
        raise refuse(error, place) from None


def _merged(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """`own` on top of `common`, peak by peak; a figure is taken whole, never half of it."""
    peaks = {"peaks": common["peaks"] | own["peaks"]} if "peaks" in common and "peaks" in own else {}
    return common | own | peaks


def sourced(value: Any, sources: dict[str, Any], place: str) -> Any:
    """`value` with the key of every figure's source replaced by the source."""
    if not isinstance(value, dict):
        return value
    found = {key: sourced(inner, sources, f"{place}: {key}") for key, inner in value.items()}
    if "source" in found:
        if found["source"] not in sources:
            raise Refused(f"{place}: source", f"one of {', '.join(sources)}", found["source"])
        found["source"] = sources[found["source"]]
    return found


def _normal(name: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


def _nearest(key: str, named: dict[str, Device]) -> str:
    from difflib import get_close_matches

    close = dict.fromkeys(named[name].name for name in get_close_matches(key[:80], named, n=3, cutoff=0.6))
    return f" (did you mean {', '.join(close)}?)" if close else " (`gpus` lists them)"
