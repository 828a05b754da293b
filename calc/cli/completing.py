"""What a shell may complete: presets, devices, quantities and laws by their names, and files where none fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[Any]]


def _of(names: Callable[[], Iterable[str]], files: bool = False) -> Complete:
    def complete(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # long to load where nothing is completed

        found = [CompletionItem(name) for name in names() if name.startswith(begun)]
        return found or ([CompletionItem(begun, type="file")] if files else [])

    return complete


def _presets() -> Iterable[str]:
    from calc.architectures.models import preset_names

    return preset_names()


def _devices() -> Iterable[str]:
    from calc.spec.catalogue import device_names

    return device_names()


def _quantities() -> Iterable[str]:
    from calc.ask.registry import QUANTITIES

    return [each.name for each in QUANTITIES]


def _laws() -> Iterable[str]:
    from calc.laws import BY_NAME

    return list(BY_NAME)


def _none() -> Iterable[str]:
    return ()


models, gpus, quantities, laws = _of(_presets, files=True), _of(_devices), _of(_quantities), _of(_laws)
files = _of(_none, files=True)
