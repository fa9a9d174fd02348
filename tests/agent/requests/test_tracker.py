import threading

from midwatch.requests.records import Recorder
from midwatch.requests.tracker import MAX_ROUTES, OTHER


def test_a_request_is_measured_from_begin_to_end(tracker, clock):
    mark = tracker.begin("rank")
    clock.advance(0.25)
    clock.cpu = 7_000_000
    tracker.gc_ns += 3_000_000
    tracker.add_compile()
    tracker.end(mark)
    (seen,) = tracker.drain()
    assert (seen.request_id, seen.is_async, seen.open_end) == (mark.request_id, False, False)
    assert (seen.route.name, seen.status, seen.end_ns - seen.start_ns) == ("rank", "ok", 250_000_000)
    assert (seen.cpu_ns, seen.gc_ns, seen.compiles, seen.in_flight) == (7_000_000, 3_000_000, 1, 1)
    assert seen.thread == (threading.get_ident(), threading.get_native_id(), "MainThread")
    assert tracker.drain() == []


def test_a_mark_that_somebody_still_holds_tells_differences_once_it_has_ended(tracker, clock):
    tracker.gc_ns, tracker.compiles, clock.cpu = 50_000_000_000, 7, 3_600_000_000_000
    mark = tracker.begin("rank")
    clock.advance(1.0)
    clock.cpu += 5_000_000
    tracker.end(mark)
    record = Recorder(clock).request(mark)
    assert (record.cpu_ns, record.gc_ns, record.compile_events) == (5_000_000, 0, 0)


def test_an_inner_request_is_part_of_the_outer(tracker):
    outer = tracker.begin("outer")
    assert tracker.begin("inner") is None
    assert tracker.current() is outer
    tracker.end(outer)
    assert tracker.current() is None
    assert [mark.route.name for mark in tracker.drain()] == ["outer"]


def test_ending_twice_counts_once(tracker):
    mark = tracker.begin("rank")
    tracker.end(mark)
    tracker.end(mark, "error")
    assert [seen.status for seen in tracker.drain()] == ["ok"]


def test_cpu_time_is_unknown_where_another_thread_ends_the_request(tracker, clock):
    mark = tracker.begin("rank")
    clock.cpu = 5_000_000
    thread = threading.Thread(target=tracker.end, args=(mark,))
    thread.start()
    thread.join()
    assert tracker.drain()[0].cpu_ns == 0


def test_a_request_past_its_deadline_wakes_the_sampler_and_one_within_does_not(tracker, clock):
    tracker.route("rank").limit_ns = 10_000_000
    for seconds, overdue in ((0.009, False), (0.011, True)):
        mark = tracker.begin("rank")
        clock.advance(seconds)
        assert tracker.overdue() is overdue
        tracker.end(mark)
        assert tracker.on_overdue.is_set() is overdue


def test_a_route_without_a_deadline_is_never_overdue(tracker, clock):
    mark = tracker.begin("new")
    clock.advance(3600)
    assert mark.deadline_ns == 0
    assert not tracker.overdue()
    tracker.end(mark)
    assert not tracker.on_overdue.is_set()


def test_a_route_named_late_gets_its_own_deadline(tracker):
    tracker.route("GET /a").limit_ns = 5
    mark = tracker.begin("(unrouted)")
    tracker.rename(mark, "GET /a")
    assert mark.deadline_ns == mark.start_ns + 5
    assert mark.route.name == "GET /a"
    tracker.end(mark)


def test_routes_beyond_the_limit_are_one(tracker):
    for number in range(MAX_ROUTES + 10):
        tracker.end(tracker.begin(f"/user/{number}"))
    names = {mark.route.name for mark in tracker.drain()}
    assert len(names) == MAX_ROUTES + 1
    assert OTHER in names
    tracker.end(tracker.begin("/user/0"))
    assert tracker.drain()[0].route.name == "/user/0"


def test_in_flight_lists_what_is_open(tracker):
    marks = []

    def serve():
        marks.append(tracker.begin("rank"))

    for _ in range(3):
        thread = threading.Thread(target=serve)
        thread.start()
        thread.join()
    assert [mark.in_flight for mark in marks] == [1, 2, 3]
    assert tracker.in_flight() == marks
    assert tracker.count() == 3
    for mark in marks:
        tracker.end(mark)
    assert tracker.in_flight() == []


def test_whoever_waits_for_a_request_is_woken_by_its_begin():
    from midwatch.clock import SystemClock
    from midwatch.requests.tracker import Tracker

    tracker = Tracker(SystemClock())
    seen = []
    waiter = threading.Thread(target=lambda: seen.append(tracker.wait_for_request(60)))
    waiter.start()
    while not tracker._asleep:
        pass
    mark = tracker.begin("rank")
    waiter.join(10)
    assert seen == [True]
    assert tracker.wait_for_request(60)
    tracker.end(mark)
    assert not tracker.wait_for_request(0.0)


def test_whoever_waits_for_calm_is_woken_by_the_last_end():
    from midwatch.clock import SystemClock
    from midwatch.requests.tracker import Tracker

    tracker = Tracker(SystemClock())
    assert tracker.wait_for_calm(60)
    marks, seen = [], []
    for _ in range(2):
        thread = threading.Thread(target=lambda: marks.append(tracker.begin("rank")))
        thread.start()
        thread.join()
    waiter = threading.Thread(target=lambda: seen.append(tracker.wait_for_calm(60)))
    waiter.start()
    while not tracker._lurking:
        pass
    tracker.end(marks[0])
    waiter.join(0.1)
    assert waiter.is_alive()
    assert not seen
    tracker.end(marks[1])
    waiter.join(10)
    assert seen == [True]
    tracker.begin("rank")
    assert not tracker.wait_for_calm(0.01)


def test_marks_are_off_in_a_forked_child(tracker):
    open_before = tracker.begin("rank")
    tracker.off = True
    assert tracker.begin("rank") is None
    tracker.end(open_before)
    assert tracker.drain() == []


def test_threads_that_ran_units_are_forgotten_after_ten_seconds(tracker, clock):
    tracker.unit_seen[11] = clock.perf_ns()
    clock.advance(6)
    tracker.unit_seen[22] = clock.perf_ns()
    assert tracker.unit_threads() == {11, 22}
    clock.advance(6)
    assert tracker.unit_threads() == {22}
