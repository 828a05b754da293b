"""The command line: parse, call, print. A command's module is imported when the command is asked for."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from calc.errors import Refused, did_you_mean
from calc.output.terminal import degrade_signs

COMMANDS = {
    "report": "calc.cli.report",
    "params": "calc.cli.params",
    "flops": "calc.cli.flops",
    "kv-cache": "calc.cli.kv_cache",
    "checkpoint": "calc.cli.checkpoint",
    "memory": "calc.cli.memory",
    "predict": "calc.cli.predict",
    "plan": "calc.cli.plan",
    "serve": "calc.cli.serve",
    "explain": "calc.cli.explain",
    "solve": "calc.cli.solve",
    "sweep": "calc.cli.sweep",
    "complexity": "calc.cli.complexity",
    "lectures": "calc.cli.lectures",
    "optimal": "calc.cli.optimal",
    "judge": "calc.cli.judge",
    "loss": "calc.cli.loss",
    "laws": "calc.cli.laws",
    "fit": "calc.cli.fit",
    "experiments": "calc.cli.experiments",
    "tokens": "calc.cli.tokens",
    "attention": "calc.cli.attention",
    "gpus": "calc.cli.gpus",
    "clusters": "calc.cli.clusters",
    "models": "calc.cli.lists",
    "quantities": "calc.cli.lists",
    "symbols": "calc.cli.lists",
    "conventions": "calc.cli.lists",
}
"""Command -> the module that holds it as an attribute of the same name."""
OTHER_COMMANDS = {"dashboard": "dashboard.command"}
"""As COMMANDS, of packages beside this one, which `calc` knows by name alone and never imports itself."""

MEANT = {
    "--mode": ("--phase",),
    "--data-parallel": ("--dp",),
    "--tensor-parallel": ("--tp",),
    "--pipeline-parallel": ("--pp",),
    "--context-parallel": ("--cp",),
    "--expert-parallel": ("--ep",),
    "--on": ("--gpu", "--cluster"),
    "--gpu": ("--on", "--cluster"),
    "--cluster": ("--on",),
}
"""Option that is tried where a command has none of that name -> what it may be called, of which the first that the
command has is meant."""


YOUNG = 50_000
"""Objects made before Python looks for rings among them. Modules and a model's record are very many that stay: looking
through them at every seven hundred, as it does by itself, takes a twentieth of a short command."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *OTHER_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name) or OTHER_COMMANDS.get(cmd_name)
        return None if module is None else getattr(import_module(module), cmd_name.replace("-", "_"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[:1] == ["plan"] and "--serve" in args:
            # A plan to serve asks for other words than a plan to train.
            return "plan --serve", import_module("calc.cli.plan_serving").plan_serving, args[1:]
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"COMMAND: expected one of {', '.join(known)}{did_you_mean(args[0], known)}, found {args[0]!r}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="transformer-envelope", prog_name="envelope")
def cli() -> None:
    """What a transformer costs: parameters, FLOPs and KV cache, exactly, with the formula behind every number.

    MODEL is a preset (see `models`), a path to a Hugging Face config.json, to its folder or to a TOML description, or,
    with the hub extra, a Hub id. Results go to stdout, messages to stderr. Exit status: 0 done, 1 failed, 2 refused,
    130 interrupted.

    \b
    Examples:
      python -m calc report llama-3-8b
      python -m calc params path/to/config.json --json
      python -m calc explain gpt2 flops.training
    """


def main() -> None:
    """Run the command line on sys.argv and exit."""
    if sys.stdout is None:
        _fail("stdout is closed: there is nowhere to print to", 1)
    gc.set_threshold(YOUNG)
    # Looking for plugins, pydantic reads what every installed package says of itself: a twentieth of a short command.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    degrade_signs()
    try:
        status = cli.main(
            prog_name="python -m calc" if sys.argv[0].endswith("__main__.py") else None, standalone_mode=False
        )
        sys.stdout.flush()
    except Refused as refusal:
        _fail(str(refusal), 2)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        sys.exit(0)
    except click.NoSuchOption as error:
        _fail(_meant(error).format_message(), 2, error.ctx)
    except click.UsageError as error:
        _fail(error.format_message(), 2, error.ctx)
    except click.ClickException as error:
        _fail(error.format_message(), 1)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted", 130)
    except BrokenPipeError:
        _abandon_stdout()
        sys.exit(1)
    except (OSError, ArithmeticError) as error:
        if isinstance(error, OSError):
            _abandon_stdout()
        _fail(str(error), 1)
    else:
        sys.exit(status if isinstance(status, int) else 0)


def _meant(error: click.NoSuchOption) -> click.UsageError:
    """The error with the option that is meant by another name, where the command has that."""
    options = {flag for param in error.ctx.command.params for flag in param.opts} if error.ctx else set()
    meant = next((flag for flag in MEANT.get(error.option_name, ()) if flag in options), None)
    if meant is None:
        return error
    return click.UsageError(f"No such option '{error.option_name}'. Did you mean '{meant}'?", error.ctx)


def _abandon_stdout() -> None:
    """Give up what stdout still holds: its reader has gone or its disk is full, and exit must not try once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _fail(message: str, status: int, ctx: click.Context | None = None) -> NoReturn:
    line = " ".join(message.split())
    hint = f" (try '{ctx.command_path} --help')" if ctx else ""
    click.echo(f"error: {line}{hint}", err=True)
    sys.exit(status)
