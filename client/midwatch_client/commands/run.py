"""`midwatch run`: a service with the agent, and no change of its code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from midwatch_client.commands.common import Failure

ATTACH = Path(__file__).resolve().parent.parent / "attach"


def environment(base: dict[str, str], service: str, collector: str) -> dict[str, str]:
    """``base`` with the agent on the Python path, and the settings that were given."""
    path = os.pathsep.join([str(ATTACH), *filter(None, [base.get("PYTHONPATH", "")])])
    given = {"MIDWATCH_SERVICE": service, "MIDWATCH_COLLECTOR": collector}
    return {**base, "PYTHONPATH": path, **{name: value for name, value in given.items() if value}}


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The service, as it is started today.")],
    service: Annotated[str, typer.Option("--service", help="Name of the service.")] = "",
    collector: Annotated[str, typer.Option("--collector", metavar="ADDR", help="Address of the collector.")] = "",
) -> None:
    """Run a service with the agent, its code unchanged.

    For example: midwatch run -- python serve.py

    The command takes the place of this process, so signals and the exit code are the service's own. Python programs
    such as gunicorn, uvicorn or torchrun can be the first word.
    """
    try:
        os.execvpe(command[0], command, environment(dict(os.environ), service, collector))  # noqa: S606  # a shell would only be in the way
    except FileNotFoundError:
        raise Failure(f"there is no program {command[0]!r} on the PATH; give the command as in a shell", 2) from None
    except OSError as error:
        raise Failure(
            f"{command[0]!r} cannot be run ({error.strerror}); "
            f"put its interpreter first: midwatch run -- python {command[0]}",
            2,
        ) from None
