"""The command line: parse, call, print. A command's module is imported when the command is asked for."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from calc.errors import Refused

COMMANDS = {
    "report": "calc.cli.report",
    "params": "calc.cli.params",
    "flops": "calc.cli.flops",
    "kv-cache": "calc.cli.kv_cache",
    "explain": "calc.cli.explain",
    "solve": "calc.cli.solve",
    "models": "calc.cli.lists",
    "quantities": "calc.cli.lists",
    "symbols": "calc.cli.lists",
    "conventions": "calc.cli.lists",
}
"""Command -> the module that holds it as an attribute of the same name."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(COMMANDS[cmd_name]), cmd_name.replace("-", "_"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"COMMAND: expected one of {', '.join(COMMANDS)}, found {args[0]!r}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="transformer-envelope", prog_name="envelope")
def cli() -> None:
    """What a transformer costs: parameters, FLOPs and KV cache, exactly, with the formula behind every number.

    MODEL is a preset (see `models`), a path to a Hugging Face config.json or to a TOML description, or, with the hub
    extra, a Hub id. Results go to stdout, messages to stderr. Exit status: 0 done, 1 failed, 2 refused.

    \b
    Examples:
      python -m calc report llama-3-8b
      python -m calc params path/to/config.json --json
      python -m calc explain gpt2 flops.training
    """


def main() -> None:
    """Run the command line on sys.argv and exit."""
    try:
        status = cli.main(
            prog_name="python -m calc" if sys.argv[0].endswith("__main__.py") else None, standalone_mode=False
        )
    except Refused as refusal:
        _fail(str(refusal), 2)
    except click.UsageError as error:
        _fail(error.format_message(), 2, error.ctx)
    except click.ClickException as error:
        _fail(error.format_message(), 1)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader has gone (`| head`): nothing is left to say, and closing stdout must not say it either.
        sys.stderr.close()
        sys.exit(1)
    except (ConnectionError, ArithmeticError) as error:
        _fail(str(error), 1)
    else:
        sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int, ctx: click.Context | None = None) -> None:
    line = " ".join(message.split())
    hint = f" (try '{ctx.command_path} --help')" if ctx else ""
    click.echo(f"error: {line}{hint}", err=True)
    sys.exit(status)
