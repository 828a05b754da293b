"""Numbers that are none: nan and inf are refused in one line by every option of every command."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

import click
import pytest

import calc.cli
import harness.__main__
from calc.cli.options import Names
from calc.cli.plan_serving import plan_serving

WORDS = (click.Choice, click.Path, click.types.StringParamType, Names)
EVEN = ("serve", "--burstiness", "inf")
"""Requests at even times, as vLLM's benchmark has it."""


def _commands(name: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        inner = command.get_command(context, each)
        assert inner is not None
        yield from _commands((*name, each), inner)


def _numbers(name: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, ...]]:
    """A command with each of its options that is no word, and with what is no number."""
    for param in command.params:
        if isinstance(param, click.Option) and not param.is_flag and not isinstance(param.type, WORDS):
            for value in ("nan", "inf"):
                if (*name, param.opts[0], value) != EVEN:
                    yield *name, param.opts[0], value


CALC = [*_commands((), calc.cli.cli), (("plan", "--serve"), plan_serving)]
HARNESS = list(_commands((), harness.__main__.cli))


def _refuses(main: Callable[[], None], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["envelope", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2


@pytest.mark.parametrize("words", [words for each in CALC for words in _numbers(*each)], ids=" ".join)
def test_every_option_refuses_it(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _refuses(calc.cli.main, words, monkeypatch)
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert {words[-2].strip("-"), words[-1]} <= set(re.findall(r"[\w-]+", err.replace("--", " ")))


@pytest.mark.parametrize("words", [words for each in HARNESS for words in _numbers(*each)], ids=" ".join)
def test_every_option_of_the_harness_refuses_it(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _refuses(harness.__main__.main, words, monkeypatch)
    err = capsys.readouterr().err
    assert {words[-2].strip("-"), words[-1]} <= set(re.findall(r"[\w-]+", err.replace("--", " ")))


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize(
    "words",
    [
        ("serve", "gpt2", "--gpu", "l4", "--input", "64", "--output", "8", "--concurrency", "1", "--price"),
        ("plan", "gpt2", "--serve", "--on", "l4", "--input", "64", "--output", "8", "--price"),
        ("plan", "gpt2", "--cluster", "dgx-h100", "--gpus", "8", "--global-batch", "64seq", "--headroom"),
        ("plan", "gpt2", "--cluster", "dgx-h100", "--gpus", "8", "--global-batch", "64seq", "--price"),
        ("memory", "gpt2", "--budget"),
        ("memory", "gpt2", "--gpu", "l4", "--memory-fraction"),
        ("attention", "--sram"),
        ("solve", "gpt2", "--for", "n_layers", "params={}"),
        ("sweep", "gpt2", "--least", "params", "--over", "n_layers={}"),
        ("sweep", "gpt2", "--over", "n_layers=1,2", "--least", "params", "--bound", "params={}..1B"),
        ("optimal", "--corpus"),
    ],
    ids=lambda words: " ".join(words),
)
def test_numbers_within_words_are_refused_too(
    words: tuple[str, ...], value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    last = (words[-1].format(value),) if "{}" in words[-1] else (words[-1], value)
    _refuses(calc.cli.main, (*words[:-1], *last), monkeypatch)
    assert value in capsys.readouterr().err.splitlines()[-1]
