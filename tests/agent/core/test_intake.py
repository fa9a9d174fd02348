import threading
from dataclasses import replace

import pytest
from midwatch.drops import drops
from midwatch.model.plain import from_plain, to_plain
from midwatch.model.requests import RouteStats, Workload
from midwatch.model.samples import GcPause, StackSample
from midwatch.model.site import Frame
from midwatch.model.spike import Spike
from midwatch.requests.units import Unit


@pytest.fixture
def warm(agent):
    """A route that has a deadline of its own: 5 ms at the median, so 15 ms."""
    for _ in range(210):
        agent.serve()
    agent.intake.digest()
    agent.intake.take_stats()
    return agent


def spikes(agent):
    return [from_plain(Spike, frame["spike"]) for frame in agent.link.frames("spike")]


def test_what_ends_while_it_takes_in_waits_for_the_next_time(agent):
    for _ in range(50):
        agent.serve()
    pieces = []

    def give_way():
        pieces.append(1)
        agent.serve()

    assert agent.intake.digest(give_way) == 50
    assert len(pieces) == 2
    assert agent.intake.digest() == len(pieces)


def test_there_is_no_leisure_while_thousands_wait(agent):
    for _ in range(5_000):
        agent.serve()
    pieces = []
    agent.intake.digest(lambda: pieces.append(agent.tracker.finished()))
    assert pieces[0] == pytest.approx(2_000, abs=50)


def test_the_workload_of_a_batchers_unit_is_kept_with_the_request_that_waited_for_it(agent):
    mark = agent.tracker.begin("rank", bind=False)
    unit = Unit()
    unit.unit_id, unit.name, unit.requests, unit.workload = 1, "Model", 1, Workload(inputs=("float32[3]@cpu",), batch=3)
    unit.thread = 1, 1, ""
    unit.owner_id = 0
    agent.clock.advance(0.001)
    unit.start_ns = agent.clock.perf_ns()
    agent.clock.advance(0.001)
    unit.end_ns = agent.clock.perf_ns()
    agent.ledger.units.add(unit)
    agent.clock.advance(0.001)
    agent.tracker.end(mark)
    agent.intake.digest()
    (kept,) = agent.ledger.requests.overlapping(mark.start_ns, mark.end_ns)
    assert kept.workload.batch == 3


def test_statistics_of_each_route(agent):
    for _ in range(8):
        agent.serve()
    agent.serve(status="error")
    agent.serve(route="other")
    agent.intake.digest()
    stats = {stat.route: stat for stat in agent.intake.take_stats()}
    rank = stats["rank"]
    assert (rank.requests, rank.errors, rank.warmup, rank.spikes, rank.sketch.count) == (9, 1, 5, 0, 4)
    assert rank.sketch.min_ns == 5_000_000
    assert rank.end_unix_ns == agent.clock.unix_ns()
    assert stats["other"].requests == 1
    assert agent.intake.take_stats() == []
    agent.serve()
    agent.intake.digest()
    (again,) = agent.intake.take_stats()
    assert isinstance(again, RouteStats)
    assert (again.requests, again.start_unix_ns) == (1, rank.end_unix_ns)


def test_an_interval_in_which_the_clock_was_set_has_its_length(agent):
    agent.clock._offset_ns -= 50 * 365 * 86_400 * 10**9  # as after a boot, before the time comes by network
    agent.intake.take_stats()
    agent.serve()
    agent.intake.digest()
    agent.clock._offset_ns += 50 * 365 * 86_400 * 10**9
    agent.clock.advance(1.0)
    (stats,) = agent.intake.take_stats()
    assert stats.end_unix_ns == agent.clock.unix_ns()
    assert 10**9 <= stats.end_unix_ns - stats.start_unix_ns < 2 * 10**9


def test_a_route_learns_its_deadline(warm):
    assert warm.tracker.route("rank").limit_ns == pytest.approx(15_000_000, rel=0.02)
    assert warm.intake.warmed_up()
    assert warm.intake.baseline("rank").p50_ms == pytest.approx(5, rel=0.02)
    assert warm.intake.baseline("never").requests == 0


def test_a_slow_request_becomes_a_spike_with_its_evidence(warm):
    warm.readings.gc = (GcPause(1, 90_000_000, 2, 10, 5, 5, explicit=False),)
    shape = Workload(("float32[1]@cpu",), 1)
    for duration_s in (0.1, 0.005, 0.005, 0.005):  # the first request of a shape may take long
        warm.serve(duration_s, workload=shape)
    mark = warm.serve(0.1, workload=shape)
    warm.intake.digest()
    (spike,) = spikes(warm)
    assert spike.rule == "sketch"
    assert spike.request.request_id == mark.request_id
    assert spike.request.duration_ns == 100_000_000
    assert spike.deadline_ms == pytest.approx(15, rel=0.02)
    assert spike.gc == warm.readings.gc
    assert spike.request.workload.inputs == ("float32[1]@cpu",)
    assert spike.baseline.requests == 206
    assert not spike.has_device
    assert warm.intake.spikes == 1


def test_new_shapes_that_go_on_taking_long_are_a_spike(warm):
    for number in range(3):
        warm.serve(0.1, workload=Workload((f"float32[{number}]@cpu",), number))
    warm.intake.digest()
    (spike,) = spikes(warm)
    assert (spike.rule, spike.request.workload.batch) == ("new_shape", 2)


def test_a_spike_is_sent_as_its_plain_value_though_it_is_made_in_pieces(warm, monkeypatch):
    frames = (Frame("app.py", 3, "rank", "app", "item"),) * 2
    samples = tuple(StackSample(n, 1, 2, "server", "request", frames, 10) for n in range(3))
    testify = warm.evidence.testify
    told = []

    def with_samples(spike, mark):
        told.append(replace(testify(spike, mark), samples=samples))
        return told[-1]

    monkeypatch.setattr(warm.evidence, "testify", with_samples)
    warm.serve(0.1)
    warm.intake.digest()
    (frame,) = warm.link.frames("spike")
    assert frame["spike"] == to_plain(told[0])
    assert spikes(warm) == told


def test_whether_it_is_warm_can_be_asked_while_it_digests(warm):
    with warm.intake._lock:
        asked = threading.Thread(target=warm.intake.warmed_up)
        asked.start()
        asked.join(10)
        assert not asked.is_alive()


def test_what_a_spike_leaves_out_is_counted(warm):
    before = dict(drops.counts()).get("units_of_one_request", 0)
    mark = warm.tracker.begin("rank")
    for _ in range(70):
        unit = Unit()
        unit.unit_id, unit.name, unit.requests, unit.workload = 1, "Model", 1, Workload()
        unit.thread = 1, 1, ""
        unit.owner_id = 0
        unit.start_ns = warm.clock.perf_ns()
        warm.clock.advance(0.001)
        unit.end_ns = warm.clock.perf_ns()
        warm.ledger.units.add(unit)
    warm.tracker.end(mark)
    warm.intake.digest()
    (spike,) = spikes(warm)
    assert len(spike.units) == 64
    assert dict(drops.counts())["units_of_one_request"] == before + 6


def test_a_recurring_spike_opens_a_window_and_is_told_so(warm):
    for _ in range(2):
        warm.serve(0.1)
        warm.clock.advance(0.4)
    warm.intake.digest()
    first, second = spikes(warm)
    assert first.capture_id == ""
    (order,) = warm.offered
    assert (order.reason, order.spike_id, order.route) == ("spike", second.spike_id, "rank")
    assert second.capture_id == order.capture_id
    assert 0.3 <= order.seconds <= 1.0


def test_a_thousand_spikes_are_counted_and_few_are_told(warm):
    dropped = dict(drops.counts()).get("spike_rate", 0)
    for _ in range(30):
        warm.serve(0.1)
    warm.intake.digest()
    assert warm.intake.spikes == 30
    assert len(spikes(warm)) == 3
    assert dict(drops.counts())["spike_rate"] - dropped == 27
    assert warm.intake.take_stats()[0].spikes == 30


def test_a_request_that_met_a_window_of_ours_is_no_spike(warm):
    warm.windows.begin("c1", warm.clock.perf_ns())
    warm.serve(0.1)
    warm.windows.end(warm.clock.perf_ns())
    warm.clock.advance(0.001)
    warm.intake.digest()
    assert spikes(warm) == []
    assert warm.intake.baseline("rank").requests == 205


def test_a_request_that_never_ends_is_told_once(warm):
    mark = warm.tracker.begin("rank")
    warm.clock.advance(9)
    warm.intake.look_for_hung()
    assert spikes(warm) == []
    warm.clock.advance(2)
    warm.intake.look_for_hung()
    warm.intake.look_for_hung()
    (spike,) = spikes(warm)
    assert (spike.request.status, spike.request.duration_ns) == ("running", 11_000_000_000)
    warm.tracker.end(mark)
    warm.intake.digest()
    assert len(spikes(warm)) == 1


def test_an_open_step_is_not_told_before_the_next_one_follows(warm):
    mark = warm.tracker.begin("rank")
    mark.open_end = True
    warm.clock.advance(60)
    warm.intake.look_for_hung()
    assert spikes(warm) == []
    warm.tracker.end(mark)
    warm.intake.digest()
    (spike,) = spikes(warm)
    assert spike.request.duration_ns == 60_000_000_000


def test_a_spike_that_cannot_be_sent_harms_nothing(warm):
    warm.link.full = True
    warm.serve(0.1)
    warm.intake.digest()
    assert warm.intake.spikes == 1
