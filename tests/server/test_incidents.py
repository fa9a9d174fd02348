from __future__ import annotations

from dataclasses import replace

import pytest
from midwatch.model.finding import Diagnosis, Finding, Kind, Verdict
from midwatch.model.site import Site
from midwatch_server import incidents
from midwatch_server.incidents import fingerprint
from midwatch_server.intake import prepare
from midwatch_server.store import Store, read

SITE = Site("shop/rank.py", 41, "rank", "shop.rank", exact=True, how="sample")
FINDING = Finding(Kind.HOT_SYNC, "a wait", SITE, 3.0, 0.3, 2.0, 1.0, 8, 0.8)


@pytest.fixture
def store(tmp_path):
    made = Store(str(tmp_path / "midwatch.db"))
    yield made
    made.close()


@pytest.fixture
def put(store):
    return lambda batch: store.put(prepare(batch, store.traces, 1_000)).result(30)


def listed(store):
    return store.ask(read.incidents, service="", kind="", since_unix_ns=0, limit=99)


def test_the_fingerprint_is_versioned_and_stable():
    assert fingerprint("ranker", "rank", FINDING) == "v1:0a8ce47f4566ec89850647c9da695e0c"


@pytest.mark.parametrize(
    "other",
    [
        replace(FINDING, kind=Kind.HOST_GAP),
        replace(FINDING, site=None),
        replace(FINDING, site=replace(SITE, function="score")),
        replace(FINDING, site=replace(SITE, module="shop.other")),
    ],
)
def test_the_fingerprint_tells_trouble_apart(other):
    assert fingerprint("ranker", "rank", other) != fingerprint("ranker", "rank", FINDING)
    assert fingerprint("ranker", "other", FINDING) != fingerprint("ranker", "rank", FINDING)
    assert fingerprint("other", "rank", FINDING) != fingerprint("ranker", "rank", FINDING)


@pytest.mark.parametrize(
    "same",
    [
        replace(FINDING, title="another", confidence=0.1, recoverable_ms=9.0),
        replace(FINDING, site=replace(SITE, line=99, exact=False, how="module", callee="item")),
        replace(FINDING, site=replace(SITE, file="elsewhere/shop/rank.py")),
    ],
)
def test_the_fingerprint_forgets_lines_figures_and_folders(same):
    assert fingerprint("ranker", "rank", same) == fingerprint("ranker", "rank", FINDING)


def test_the_main_file_goes_by_its_name_however_it_was_started():
    as_main = replace(FINDING, site=replace(SITE, module="__main__"))
    unnamed = replace(FINDING, site=replace(SITE, module=""))
    assert fingerprint("s", "r", as_main) == fingerprint("s", "r", unnamed) != fingerprint("s", "r", FINDING)


def test_notes_are_no_sightings(make):
    diagnosis = Diagnosis(Verdict.CLEAN, notes=(FINDING,))
    assert incidents.of_spike(make.spike(), diagnosis, make.resource()) == ()


def test_two_lines_of_one_function_are_one_sighting_the_worse_of_them(make):
    second = replace(FINDING, site=replace(SITE, line=50), title="the lesser")
    found = incidents.of_capture(make.capture(), Diagnosis(Verdict.FINDINGS, (FINDING, second)), make.resource())
    assert [one.occurrence.finding for one in found] == [FINDING]


def test_what_a_window_found_in_one_route_is_trouble_of_that_route(make):
    elsewhere = replace(FINDING, route="POST /clicks")
    capture = replace(make.capture(), route="GET /items", spike_id="s1")
    found = incidents.of_capture(capture, Diagnosis(Verdict.FINDINGS, (elsewhere, FINDING)), make.resource())
    assert [one.route for one in found] == ["POST /clicks", "GET /items"]
    assert [one.occurrence.spike_id for one in found] == ["", "s1"]


def test_an_exact_line_is_better_and_confidence_comes_next():
    vague = replace(FINDING, site=replace(SITE, exact=False), confidence=0.99)
    surer = replace(FINDING, confidence=0.9)
    assert incidents.better(vague, FINDING) is FINDING
    assert incidents.better(FINDING, vague) is FINDING
    assert incidents.better(FINDING, surer) is surer
    assert incidents.better(FINDING, replace(FINDING)) is FINDING


def test_spikes_with_one_cause_are_one_incident(store, put, make):
    put(make.batch(make.spike("s1", at_ns=make.T0 + 5), make.spike("s2", at_ns=make.T0, line=13)))
    put(make.batch(make.spike("s3", at_ns=make.T0 + 9), make.spike("s4", route="other")))
    one, other = sorted(listed(store), key=lambda incident: incident.route == "other")
    assert (one.count, one.first_seen_unix_ns, one.last_seen_unix_ns) == (3, make.T0, make.T0 + 9)
    assert (one.kind, one.service, one.route, one.service_version) == (Kind.GC_PAUSE, "ranker", "rank", "1.2")
    assert one.latest.site.line == 12
    assert other.count == 1


def test_an_older_sighting_that_comes_late_does_not_become_the_latest(store, put, make):
    put(make.batch(make.spike("s1", at_ns=make.T0 + 5, line=20)))
    put(make.batch(make.spike("s2", at_ns=make.T0, line=10)))
    (one,) = listed(store)
    assert (one.count, one.latest.site.line, one.first_seen_unix_ns) == (2, 20, make.T0)


def test_the_same_spike_in_another_batch_counts_once(store, put, make):
    put(make.batch(make.spike()))
    assert put(make.batch(make.spike())).sightings == ()
    (one,) = listed(store)
    assert one.count == 1


@pytest.mark.parametrize("window_first", [False, True])
def test_a_spike_and_the_window_that_it_ordered_are_one_sighting(store, put, make, window_first):
    records = [make.spike("s1"), make.capture("c1", spike_id="s1")]
    for record in reversed(records) if window_first else records:
        put(make.batch(record))
    (one,) = listed(store)
    detail = store.ask(read.incident, one.incident_id[:6], limit=5)
    (seen,) = detail.occurrences
    assert one.count == 1
    assert (seen.spike_id, seen.capture_id) == ("s1", "c1")
    assert detail.spike == make.spike("s1")
    assert detail.capture == make.capture("c1", spike_id="s1")
    assert detail.resource == make.resource()


def test_a_window_of_its_own_counts_for_itself(store, put, make):
    put(make.batch(make.spike("s1"), make.capture("c1")))
    (one,) = listed(store)
    assert one.count == 2


def test_news_are_the_new_sightings_with_their_incident(put, make):
    first = put(make.batch(make.spike("s1"))).sightings
    second = put(make.batch(make.spike("s1"), make.spike("s2"), make.capture("c1", spike_id="s1"))).sightings
    assert [(incident.count, seen.spike_id) for incident, seen in first + second] == [(1, "s1"), (2, "s2")]


def test_occurrences_are_bounded_and_newest_first(store, put, make):
    put(make.batch(*[make.spike(f"s{i}", at_ns=make.T0 + i) for i in range(6)]))
    (one,) = listed(store)
    detail = store.ask(read.incident, one.incident_id, limit=2)
    assert [seen.spike_id for seen in detail.occurrences] == ["s5", "s4"]
    assert detail.incident.count == 6
    assert detail.spike.spike_id == "s5"
    assert detail.capture is None


def test_a_kind_of_a_newer_version_reads_as_unknown(store, put, make):
    put(make.batch(make.spike()))
    write = "UPDATE incidents SET kind = 'warp_core_breach'"
    store.writer.submit(lambda connection: connection.exec_driver_sql(write).rowcount).result(30)
    assert listed(store)[0].kind is Kind.UNKNOWN
