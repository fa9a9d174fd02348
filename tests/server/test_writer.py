from __future__ import annotations

import sqlite3
import threading

import pytest
from midwatch_server.errors import StoreUnavailableError
from midwatch_server.store.database import reader_engine, writer_engine
from midwatch_server.store.writer import GROUP, Writer


@pytest.fixture
def engine(tmp_path):
    made = writer_engine(tmp_path / "a.db")
    with made.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE t (n INTEGER PRIMARY KEY)")
        connection.commit()
    yield made
    made.dispose()


@pytest.fixture
def writer(engine):
    made = Writer(engine)
    yield made
    made.close()


@pytest.fixture
def held(writer):
    """Keeps the writer inside a first job until it is set, so that others gather behind it."""
    begun, release = threading.Event(), threading.Event()
    writer.submit(lambda _connection: (begun.set(), release.wait(30)))
    assert begun.wait(30)
    yield release
    release.set()


def put(number):
    return lambda connection: connection.exec_driver_sql(f"INSERT INTO t VALUES ({number})").rowcount


def run(writer, statement):
    return writer.submit(lambda connection: connection.exec_driver_sql(statement).scalar()).result(30)


def numbers(path):
    with sqlite3.connect(path) as connection:
        found = [row[0] for row in connection.execute("SELECT n FROM t ORDER BY n")]
    connection.close()
    return found


def test_jobs_that_gather_share_a_commit(writer, held, tmp_path):
    futures = [writer.submit(put(number)) for number in range(GROUP)]
    held.set()
    assert [future.result(30) for future in futures] == [1] * GROUP
    assert writer.commits == 2
    assert numbers(tmp_path / "a.db") == list(range(GROUP))


def test_a_group_is_bounded(writer, held):
    futures = [writer.submit(put(number)) for number in range(GROUP + 1)]
    held.set()
    for future in futures:
        future.result(30)
    assert writer.commits == 3


def test_what_is_answered_is_committed(writer, tmp_path):
    for number in range(5):
        writer.submit(put(number)).result(30)
        assert numbers(tmp_path / "a.db") == list(range(number + 1))


def test_a_job_that_fails_fails_alone(writer, held, tmp_path):
    futures = [writer.submit(put(number)) for number in (1, 2, 1, 3)]
    held.set()
    assert futures[0].result(30) == futures[1].result(30) == futures[3].result(30) == 1
    with pytest.raises(Exception, match="UNIQUE"):
        futures[2].result(30)
    assert numbers(tmp_path / "a.db") == [1, 2, 3]


def test_a_locked_database_is_unavailable_and_serves_again_later(writer, tmp_path):
    run(writer, "PRAGMA busy_timeout=10")
    blocker = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked"):
        writer.submit(put(1)).result(30)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert writer.submit(put(1)).result(30) == 1


def test_a_full_disk_is_unavailable_and_leaves_nothing_behind(writer, tmp_path):
    pages = run(writer, "PRAGMA page_count")
    run(writer, f"PRAGMA max_page_count={pages}")
    many = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 9999) INSERT INTO t SELECT n FROM c"
    with pytest.raises(StoreUnavailableError, match="full"):
        writer.submit(lambda connection: connection.exec_driver_sql(many)).result(30)
    assert numbers(tmp_path / "a.db") == []
    run(writer, "PRAGMA max_page_count=100000")
    assert writer.submit(put(1)).result(30) == 1


def test_closing_commits_what_is_queued_and_takes_no_more(engine, tmp_path):
    writer = Writer(engine)
    futures = [writer.submit(put(number)) for number in range(300)]
    writer.close()
    assert all(future.result(0) == 1 for future in futures)
    with pytest.raises(StoreUnavailableError):
        writer.submit(put(300)).result(0)
    assert numbers(tmp_path / "a.db") == list(range(300))


def test_nobody_can_cancel_what_is_queued(writer, held, tmp_path):
    future = writer.submit(put(7))
    assert not future.cancel()
    held.set()
    assert future.result(30) == 1


def test_a_store_that_cannot_be_opened_is_unavailable(tmp_path):
    engine = writer_engine(tmp_path / "no" / "such" / "folder.db")
    writer = Writer(engine)
    with pytest.raises(StoreUnavailableError, match="unable to open"):
        writer.submit(put(1)).result(30)
    writer.close()
    engine.dispose()


def test_the_disk_is_told_to_sync_and_readers_cannot_write(writer, tmp_path):
    found = [run(writer, f"PRAGMA {name}") for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert found == ["wal", 2, 1]
    readers = reader_engine(tmp_path / "a.db")
    with readers.connect() as connection:
        with pytest.raises(Exception, match="readonly"):
            connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() == 0
    readers.dispose()
