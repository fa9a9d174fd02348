"""`midwatch collector`: where everything comes together."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from midwatch_client.commands.common import DEFAULT_COLLECTOR, Failure
from midwatch_client.commands.db import DEFAULT_DB, DbOption, need_collector


def collector(
    db: DbOption = DEFAULT_DB,
    grpc: Annotated[
        str, typer.Option("--grpc", metavar="ADDR", envvar="MIDWATCH_GRPC", help="Where to listen, host:port.")
    ] = DEFAULT_COLLECTOR,
) -> None:
    """Store, group and diagnose what the agents send.

    Raw traces are kept in a folder beside the database. Ctrl-C or SIGTERM ends it.
    """
    need_collector()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails is said in a sentence, not by gRPC's C code before it
    from midwatch_server.app import run_collector
    from midwatch_server.errors import StartError
    from midwatch_server.settings import CollectorSettings

    try:
        run_collector(CollectorSettings(db=db, grpc=grpc))
    except StartError as error:
        raise Failure(str(error)) from None
