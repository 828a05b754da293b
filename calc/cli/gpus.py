"""`gpus`: the catalogue of devices, and what is known of one."""

from __future__ import annotations

from typing import Any

import click

from calc.cli import completing, options
from calc.output.tables import Table, emit
from calc.spec.catalogue import device_names, load_device
from calc.spec.hardware import Capacity, Device, Fact, Link
from calc.units import binary, si


@click.command(short_help="GPUs and TPUs: memory, bandwidth, peaks, links, power.")
@click.argument("name", required=False, shell_complete=completing.gpus)
@options.output
def gpus(name: str | None, fmt: str) -> None:
    """List the devices, or every figure of the device NAME with its source.

    Peaks are those of dense matrix products, never of sparse ones, with sums in fp32. NAME may be what torch calls the
    device; a short name that several devices go by (h100: SXM, PCIe, NVL) is refused with their names.

    \b
    Examples:
      python -m calc gpus
      python -m calc gpus h100-sxm
    """
    if name is None:
        devices = [load_device(each) for each in device_names()]
        emit([_summary(device) for device in devices], [_list(devices)], fmt)
    else:
        device = load_device(name)
        emit([_record(device)], [_figures(device), _sources(device)], fmt)


_SPARE = ("reported", "power, W", "fp16")


def _list(devices: list[Device]) -> Table:
    columns = ("device", "memory", "reported", "bandwidth", "fp16", "bf16", "fp8", "links", "power, W")
    rows = []
    for device in devices:
        peaks = device.known_peaks
        cells = (
            device.memory,
            device.reported,
            device.bandwidth,
            *map(peaks.get, ("fp16", "bf16", "fp8")),
            device.link,
        )
        watts = f"{device.power.value:,}" if device.power else "–"
        rows.append((device.name + " *" * bool(device.unconfirmed), *map(_shown, cells), watts))
    note = "* some of its figures are unconfirmed: `python -m calc gpus NAME` says which"
    return Table(columns, rows, "dense peaks a second; links: all of them, both directions", note, _SPARE)


def _figures(device: Device) -> Table:
    rows = []
    for name, fact in device.facts():
        label = f"{name}: {fact.name}" if isinstance(fact, Link) else name
        rows.append((label, _shown(fact), _mark(device, fact), fact.note))
        if name == "link" and device.link_one_way is not None:
            rows.append(("link, one direction", si(device.link_one_way, "B/s"), "", "half of link"))
    title = f"{device.name}: {device.title} ({device.architecture})"
    note = "? unconfirmed: no page that was opened shows it" if device.unconfirmed else ""
    return Table(("figure", "value", "source", "note"), rows, title, note)


def _sources(device: Device) -> Table:
    rows = [
        (f"[{i}]", str(source.read), f"{source.document}; {source.where}; {source.url}")
        for i, source in enumerate(device.sources, 1)
    ]
    return Table(("source", "read", "document"), rows)


def _mark(device: Device, fact: Fact) -> str:
    return f"[{device.sources.index(fact.source) + 1}]" + " ?" * (not fact.source.confirmed)


def _shown(fact: Fact | None) -> str:
    if fact is None:
        return "–"
    if isinstance(fact, Capacity):
        return binary(fact.value)
    return f"{fact.value:,} {fact.unit}".strip() if fact.unit in ("", "W") else si(fact.value, fact.unit)


def _summary(device: Device) -> dict[str, Any]:
    values = {name: fact.value for name, fact in device.facts() if "." not in name}
    keys = ("memory", "reported", "bandwidth", "link", "host", "cores", "sram", "l2", "l3", "power")
    return {
        "gpu": device.name,
        "title": device.title,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "aliases": list(device.aliases),
        **{key: values.get(key) for key in keys},
        "usable": device.usable,
        "link_one_way": device.link_one_way,
        "peaks": {dtype: rate.value for dtype, rate in device.known_peaks.items()},
        "unconfirmed": list(device.unconfirmed),
    }


def _record(device: Device) -> dict[str, Any]:
    facts = {}
    for name, fact in device.facts():
        source = fact.source
        facts[name] = {
            "value": fact.value,
            "unit": fact.unit,
            "confirmed": source.confirmed,
            "document": source.document,
            "where": source.where,
            "url": source.url,
            "read": source.read.isoformat(),
            "note": fact.note,
        }
    return _summary(device) | {"facts": facts}
