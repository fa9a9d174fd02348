"""`midwatch db`: the collector's database."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from midwatch_client.commands.common import Failure, JsonFlag, print_json, say

DEFAULT_DB = "midwatch.db"

DbOption = Annotated[
    str, typer.Option("--db", metavar="URL", envvar="MIDWATCH_DB", help="A path, or sqlite:/// and a path.")
]


def need_collector() -> None:
    """Raise `Failure` where what a collector needs is not installed."""
    missing = [name for name in ("sqlalchemy", "alembic") if find_spec(name) is None]
    if missing:
        raise Failure(f"a collector needs {' and '.join(missing)}; install with: pip install 'midwatch[collector]'")


def upgrade(db: DbOption = DEFAULT_DB, json_: JsonFlag = False) -> None:
    """Bring a database to the schema of this version, making it where it is missing.

    A collector does the same when it starts; run this beforehand where a start must not take long.
    """
    need_collector()
    from midwatch_server.errors import StartError
    from midwatch_server.store.upgrade import upgrade_database

    try:
        before, after = upgrade_database(db)
    except StartError as error:
        raise Failure(str(error)) from None
    if json_:
        print_json({"schema": "midwatch.upgrade.v1", "db": db, "before": before, "after": after})
    elif before == after:
        say(f"{db} is at schema {after} already")
    else:
        say(f"{db}: schema {f'brought from {before} to {after}' if before else f'{after} created'}")
