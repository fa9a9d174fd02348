from __future__ import annotations

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from midwatch_server.store.database import writer_engine
from midwatch_server.store.schema import metadata
from midwatch_server.store.upgrade import alembic_config, upgrade, upgrade_database
from sqlalchemy import LargeBinary, Text, inspect, select
from sqlalchemy.types import Boolean


@pytest.fixture
def path(tmp_path):
    return tmp_path / "midwatch.db"


@pytest.fixture
def connection(path):
    engine = writer_engine(path)
    with engine.connect() as made:
        yield made
    engine.dispose()


def move(connection, step, target):
    step(alembic_config(connection), target)
    connection.commit()


def row_of(table):
    """A row with something in every column; the same for all tables, so that references fit."""
    made = {}
    for column in table.columns:
        if isinstance(column.type, Text):
            made[column.name] = f"{column.name}-1"
        elif isinstance(column.type, LargeBinary):
            made[column.name] = b"\x00\xff"
        else:
            made[column.name] = True if isinstance(column.type, Boolean) else 2**40
    return made


def test_there_is_one_head():
    assert len(ScriptDirectory.from_config(alembic_config()).get_heads()) == 1


def test_the_migrations_make_what_the_code_expects(connection):
    move(connection, command.upgrade, "head")
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    assert compare_metadata(context, metadata) == []


def test_down_and_up_again_with_rows_in_place(connection):
    revisions = [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()][::-1]
    move(connection, command.upgrade, "head")
    for table in metadata.sorted_tables:
        connection.execute(table.insert().values(row_of(table)))
    connection.commit()
    for target in [*revisions[-2::-1], "base"] if len(revisions) > 1 else ["base"]:
        move(connection, command.downgrade, target)
    assert inspect(connection).get_table_names() == ["alembic_version"]
    connection.rollback()
    for target in revisions:
        move(connection, command.upgrade, target)
    for table in metadata.sorted_tables:
        connection.execute(table.insert().values(row_of(table)))
        assert connection.execute(select(table)).mappings().one() == row_of(table)
    connection.commit()


def test_upgrading_twice_changes_nothing(path, caplog):
    caplog.set_level("INFO", "midwatch.collector")
    before, head = upgrade_database(str(path))
    assert (before, head) == ("", ScriptDirectory.from_config(alembic_config()).get_current_head())
    assert f"schema created ({head})" in caplog.text
    caplog.clear()
    assert upgrade_database(str(path)) == (head, head)
    assert caplog.text == ""


def test_a_migration_that_fails_leaves_the_schema_as_it_was(path, connection, monkeypatch):
    def half(config, target):
        config.attributes["connection"].exec_driver_sql("CREATE TABLE half (n INTEGER)")
        raise RuntimeError("the machine lost power")

    monkeypatch.setattr(command, "upgrade", half)
    with pytest.raises(RuntimeError):
        upgrade(path)
    assert inspect(connection).get_table_names() == []
