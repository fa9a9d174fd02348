from __future__ import annotations

import re
import sqlite3
import stat
import subprocess
import sys

import pytest
from midwatch.model.finding import Kind
from midwatch.model.samples import GpuSample, HostSample
from midwatch.model.status import AgentStatus
from midwatch_server.errors import BadRequestError, NotFoundError, StartError
from midwatch_server.intake import prepare
from midwatch_server.store import Store, read, upgrade_database
from midwatch_server.store.database import database_path


@pytest.fixture
def news():
    return []


@pytest.fixture
def store(tmp_path, news):
    made = Store(str(tmp_path / "midwatch.db"), news.append)
    yield made
    made.close()


@pytest.fixture
def put(store):
    return lambda batch, at_ns=1_000: store.put(prepare(batch, store.traces, at_ns)).result(30)


def count(store, table):
    return store.ask(lambda connection: connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar())


def test_a_batch_is_stored_once_however_often_it_comes(store, put, make, news):
    records = [make.stats(), GpuSample(make.T0, 0), HostSample(make.T0, 5), make.spike(), make.capture()]
    batch = make.batch(*records)
    first, again = put(batch), put(batch)
    assert (first.duplicate, again.duplicate) == (False, True)
    tables = ("batches", "agents", "route_stats", "gpu_samples", "host_samples", "spikes", "captures")
    assert [count(store, table) for table in tables] == [1] * len(tables)
    assert news == [first]


def test_two_agents_may_use_the_same_batch_id(store, put, make):
    put(make.batch(make.stats(), batch_id="b", resource=make.resource("one")))
    put(make.batch(make.stats(), batch_id="b", resource=make.resource("two")))
    assert count(store, "route_stats") == 2


def test_a_spike_comes_back_as_it_went_and_light_in_lists(store, put, make):
    put(make.batch(make.spike()))
    detail = store.ask(read.spike, "spike-1")
    assert detail.spike == make.spike()
    assert detail.resource == make.resource()
    assert detail.diagnosis.findings[0].kind is Kind.GC_PAUSE
    (light,) = store.ask(read.spikes, service="", since_unix_ns=0, limit=10, unexplained_only=False)
    assert light.spike.gc == ()
    assert light.spike.request == make.spike().request


def test_unexplained_spikes_can_be_asked_for(store, put, make):
    put(make.batch(make.spike("plain", explained=False), make.spike("known")))
    found = store.ask(read.spikes, service="ranker", since_unix_ns=0, limit=10, unexplained_only=True)
    assert [one.spike.spike_id for one in found] == ["plain"]


def test_a_capture_comes_back_as_it_went_and_light_in_lists(store, put, make):
    put(make.batch(make.capture(), make.capture("later", state="refused", detail="busy")))
    detail = store.ask(read.capture, "capture-1")
    assert detail.capture == make.capture()
    assert detail.diagnosis.findings[0].kind is Kind.GC_PAUSE
    assert not detail.has_raw_trace
    found = store.ask(read.captures, service="ranker", since_unix_ns=0, limit=10)
    assert {one.capture.capture_id: one.capture.summary for one in found} == {"capture-1": None, "later": None}
    assert store.ask(read.capture, "later").diagnosis.reason == "busy"


def test_filters_and_limits(store, put, make):
    put(make.batch(*[make.spike(f"s{i}", at_ns=make.T0 + i) for i in range(5)]))
    found = store.ask(read.spikes, service="", since_unix_ns=make.T0 + 2, limit=2, unexplained_only=False)
    assert [one.spike.spike_id for one in found] == ["s4", "s3"]
    assert store.ask(read.spikes, service="other", since_unix_ns=0, limit=9, unexplained_only=False) == []
    asked = {"service": "ranker", "since_unix_ns": 0, "limit": 9}
    assert len(store.ask(read.incidents, kind="gc_pause", **asked)) == 1
    assert store.ask(read.incidents, kind="hot_sync", **asked) == []
    assert store.ask(read.incidents, kind="", **{**asked, "since_unix_ns": make.T0 + 5}) == []


def test_the_latest_status_of_an_agent_stays(store, put, make):
    put(make.batch(AgentStatus(make.T0 + 2, requests=2)), at_ns=5_000)
    put(make.batch(AgentStatus(make.T0 + 1, requests=1)), at_ns=4_000)
    put(make.batch(make.stats()), at_ns=6_000)
    (view,) = store.ask(read.agents, service="", limit=10)
    assert view.status == AgentStatus(make.T0 + 2, requests=2)
    assert view.last_seen_unix_ns == 6_000
    assert view.resource == make.resource()


def test_another_agent_cannot_replace_a_spike(store, put, make):
    put(make.batch(make.spike(route="mine")))
    put(make.batch(make.spike(route="theirs"), resource=make.resource("agent-2")))
    assert store.ask(read.spike, "spike-1").spike.request.route == "mine"


def test_ids_may_be_shortened_while_they_fit_one_thing(store, put, make):
    put(make.batch(make.spike("abc1"), make.spike("abc2"), make.spike("abc")))
    assert store.ask(read.spike, "abc1").spike.spike_id == "abc1"
    assert store.ask(read.spike, "abc").spike.spike_id == "abc"
    with pytest.raises(BadRequestError, match="more than one spike"):
        store.ask(read.spike, "ab")
    with pytest.raises(NotFoundError, match="no spike x"):
        store.ask(read.spike, "x")
    with pytest.raises(BadRequestError):
        store.ask(read.spike, "")
    with pytest.raises(NotFoundError):
        store.ask(read.spike, "%")


def test_what_was_stored_is_there_after_a_restart(make, tmp_path):
    first = Store(str(tmp_path / "midwatch.db"))
    first.put(prepare(make.batch(make.spike()), first.traces))
    first.close()
    again = Store(str(tmp_path / "midwatch.db"))
    assert again.ask(read.spike, "spike-1").spike == make.spike()
    assert (first.before, again.before) == ("", again.revision)
    again.close()


def test_only_the_owner_can_read_it(store, tmp_path):
    for path in (tmp_path / "midwatch.db", tmp_path / "midwatch.db.d" / "traces"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


HOLD = """
import sys
from midwatch_server.store import Store
store = Store(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
store.close()
"""


@pytest.mark.process
def test_a_second_collector_on_the_same_file_is_refused(tmp_path):
    path = str(tmp_path / "midwatch.db")
    command = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        expected = f"Another collector (process {other.pid}) uses {path}; stop it"
        with pytest.raises(StartError, match=re.escape(expected)):
            Store(path)
        with pytest.raises(StartError, match=re.escape(expected)):
            upgrade_database(path)
        other.communicate()
    assert other.returncode == 0
    Store(path).close()


def test_a_newer_schema_is_refused(tmp_path):
    upgrade_database(str(tmp_path / "midwatch.db"))
    with sqlite3.connect(tmp_path / "midwatch.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StartError, match=r"written by a newer Midwatch \(schema 9999\); upgrade this one"):
        Store(str(tmp_path / "midwatch.db"))


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    with pytest.raises(StartError, match="database of something else"):
        Store(str(path))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]
    connection.close()


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    with pytest.raises(StartError, match="no usable database"):
        Store(str(path))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="choose another path"):
        Store(str(tmp_path / "file" / "midwatch.db"))


def test_a_refused_store_lets_go_of_the_file(tmp_path):
    (tmp_path / "midwatch.db.d").mkdir()
    (tmp_path / "midwatch.db.d" / "traces").write_text("in the way")
    with pytest.raises(StartError, match="cannot be made"):
        Store(str(tmp_path / "midwatch.db"))
    (tmp_path / "midwatch.db.d" / "traces").unlink()
    Store(str(tmp_path / "midwatch.db")).close()


@pytest.mark.parametrize(
    ("given", "path"),
    [("sqlite:///a/b.db", "a/b.db"), ("sqlite:////a/b.db", "/a/b.db"), ("b.db", "b.db"), ("/a/b.db", "/a/b.db")],
)
def test_paths_and_urls(given, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(database_path(given)) == str(tmp_path / path)


@pytest.mark.parametrize("given", ["postgresql://x/y", "sqlite://", "sqlite:///"])
def test_other_databases_are_refused(given):
    with pytest.raises(StartError, match="SQLite only"):
        database_path(given)
