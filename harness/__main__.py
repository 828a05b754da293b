"""`python -m harness`. A command's module is imported when the command is asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from keyword import iskeyword

import click

from calc.errors import Refused, did_you_mean
from calc.output.terminal import degrade_signs

COMMANDS = {
    "devices": "harness.cli.devices",
    "profile": "harness.cli.profile",
    "import": "harness.cli.importing",
    "run": "harness.cli.run",
    "survey": "harness.cli.survey",
    "fleet": "harness.cli.fleet",
    "compare": "harness.cli.compare",
    "report": "harness.cli.report",
    "diff": "harness.cli.diff",
    "gate": "harness.cli.gate",
    "noise": "harness.cli.noise",
    "check-prediction": "harness.cli.check_prediction",
    "serve": "harness.cli.serve",
    "refit": "harness.cli.refit",
    "store": "harness.cli.store",
    "verify": "harness.verify",
}
"""Command -> the module that holds it as an attribute of the same name, with _ behind a word of Python's own."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_") + "_" * iskeyword(cmd_name)
        return getattr(import_module(COMMANDS[cmd_name]), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS)
            ctx.fail(f"COMMAND: expected one of {', '.join(COMMANDS)}{hint}, found {args[0]!r}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """Hold the calculator against what really runs on this machine."""


def main() -> None:
    """Run the command line on sys.argv and exit: 0 done, 1 a difference or a failure, 2 refused, 130 interrupted."""
    degrade_signs()
    try:
        status = cli.main(prog_name="python -m harness", standalone_mode=False)
    except Refused as refusal:
        _fail(str(refusal), 2)
    except (ImportError, NotImplementedError) as error:
        _fail(str(error), 2)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        sys.exit(0)
    except click.UsageError as error:
        _fail(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted", 130)
    except OSError as error:
        _fail(str(error), 1)
    else:
        sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
