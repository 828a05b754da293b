"""`python -m harness`."""

from __future__ import annotations

import sys

import click

from calc.errors import Refused
from harness.verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """Hold the calculator against what really runs on this machine."""


cli.add_command(verify)


def main() -> None:
    """Run the command line on sys.argv and exit: 0 done, 1 a difference or a failure, 2 refused, 130 interrupted."""
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
