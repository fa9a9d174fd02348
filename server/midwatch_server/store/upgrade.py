"""Brings the schema of a database to that of this version, by Alembic (`midwatch_migrations`)."""

from __future__ import annotations

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DatabaseError

from midwatch_server.errors import StartError
from midwatch_server.store.database import FileLock, create_private, database_path, writer_engine

log = logging.getLogger("midwatch.collector")


def alembic_config(connection: Connection | None = None) -> Config:
    """Return the configuration with which Alembic finds the migrations and works on ``connection``."""
    config = Config()
    config.set_main_option("script_location", "midwatch_migrations:.")
    config.attributes["connection"] = connection
    return config


def upgrade_database(db: str) -> tuple[str, str]:
    """Bring the database ``db`` to the schema of this version, making it where it is missing.

    Returns the revision before ("" for a new database) and the one after. Raises `StartError` where a collector uses
    it, or where it is not a database that this version can bring on.
    """
    path = database_path(db)
    lock = FileLock(path)
    try:
        return upgrade(path)
    finally:
        lock.release()


def upgrade(path: Path) -> tuple[str, str]:
    """Do it; the caller holds the lock. Returns the revision before ("" for a new database) and the one after."""
    engine = writer_engine(path)
    try:
        create_private(path)
        with engine.connect() as connection:
            before = _revision(connection, path)
            head = ScriptDirectory.from_config(alembic_config()).get_current_head() or ""
            connection.rollback()
            if before != head:
                command.upgrade(alembic_config(connection), "head")
                connection.commit()
                log.info("%s: schema %s", path, f"brought from {before} to {head}" if before else f"created ({head})")
    except OSError as error:
        raise StartError(f"{path} cannot be opened ({error.strerror}); choose another path with --db.") from error
    except DatabaseError as error:
        raise StartError(f"{path} is no usable database ({error.orig}); choose another path with --db.") from error
    finally:
        engine.dispose()
    return before, head


def _revision(connection: Connection, path: Path) -> str:
    """The revision that the database is at. Raises `StartError` for one that this version does not know."""
    heads = MigrationContext.configure(connection).get_current_heads()
    if not heads:
        if inspect(connection).get_table_names():
            raise StartError(f"{path} is a database of something else; choose another path with --db.")
        return ""
    known = {script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()}
    if unknown := set(heads) - known:
        raise StartError(
            f"{path} was written by a newer Midwatch (schema {', '.join(sorted(unknown))}); upgrade this one, "
            "or choose another path with --db."
        )
    return heads[0]
