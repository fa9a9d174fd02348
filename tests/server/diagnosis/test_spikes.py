"""What is said of a spike without a window."""

import dataclasses

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.model.requests import UnitRecord, Workload
from midwatch.model.samples import CompileEvent, GcPause, LockWait
from midwatch_server.diagnosis import Evidence, diagnose


def judge(spike):
    return diagnose(Evidence(spike=spike))


def test_an_automatic_collection_has_no_site_and_an_explicit_one_has_its_line(make):
    frames = (make.frame("rank", 52, "collect"),)
    pause = GcPause(
        make.START + 50 * make.MS, 380 * make.MS, 2, 0, 1, 1, explicit=False, frames=frames, objects=1_200_000
    )
    (finding,) = judge(make.spike(500, gc=(pause,))).findings
    assert finding.kind is Kind.GC_PAUSE
    assert finding.site is None
    assert finding.title == "A garbage collection (generation 2 over 1,200,000 objects) held the request for 380 ms"
    assert finding.recoverable_ms == 380.0
    assert finding.share_of_request == pytest.approx(0.76)
    assert "79 % of the 480 ms" in finding.evidence[-1]
    assert "freeze" in finding.advice[0].change

    (finding,) = judge(make.spike(500, gc=(dataclasses.replace(pause, explicit=True),))).findings
    assert (finding.site.file, finding.site.line, finding.site.exact) == ("app/ranker.py", 52, True)
    assert finding.title == "`gc.collect()` in rank (app/ranker.py:52) held the request for 380 ms"


def test_a_collection_that_only_the_samples_saw_is_one_all_the_same(make):
    finalizer = make.frame("remove", 105, "", "weakref")
    spike = make.spike(500, samples=make.samples(0, 500, finalizer, make.frame("trim", 28, "collect")))
    (finding,) = judge(spike).findings
    assert (finding.kind, finding.title) == (
        Kind.GC_PAUSE,
        "`gc.collect()` in trim (app/ranker.py:28) held the request for 500 ms",
    )


def test_an_event_loop_that_runs_nothing_of_the_service_s_is_no_cause(make):
    stack = (
        make.frame("_SelectorSocketTransport.write", 1057, "send", "asyncio.selector_events"),
        make.frame("BaseEventLoop._run_once", 1884, "_run", "asyncio.base_events"),
        make.frame("Runner.run", 118, "run_until_complete", "asyncio.runners"),
        make.frame("<module>", 77, "run", "__main__"),
    )
    diagnosis = judge(make.spike(500, is_async=True, samples=make.samples(100, 500, *stack)))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.findings == diagnosis.notes == ()


def test_a_batcher_that_waits_on_a_queue_written_in_c_is_no_cause(make):
    idle = make.samples(100, 500, make.frame("_collect", 58, "get"), role="unit", thread=2)
    unit = UnitRecord(1, "Ranker", make.START, 10 * make.MS, thread_id=2)
    assert judge(make.spike(500, samples=idle, units=(unit,))).findings == ()


def test_the_thread_of_the_units_is_named_and_only_blamed_where_units_ran(make):
    work = make.samples(100, 500, make.frame("penalties.<locals>.<genexpr>", 14), role="unit", thread=2, name="batcher")
    unit = UnitRecord(1, "Ranker", make.START, 10 * make.MS, thread_id=2)
    (finding,) = judge(make.spike(500, is_async=True, samples=work, units=(unit,))).findings
    assert finding.title == "Python in penalties (app/ranker.py:14), on thread batcher, held the request for 400 ms"
    assert judge(make.spike(500, is_async=True, samples=work)).findings == ()


def test_a_lock_names_the_waiting_line_and_the_holder_s(make):
    wait = LockWait(
        make.START + 90 * make.MS,
        400 * make.MS,
        1,
        (make.frame("rerank", 88, "acquire"),),
        "Lock RANKS_LOCK",
        holder_thread_id=5,
        holder_thread_name="refresher",
        holder=(make.frame("refresh", 120, "sleep"),),
    )
    (finding,) = judge(make.spike(500, locks=(wait,))).findings
    assert finding.kind is Kind.LOCK_WAIT
    assert finding.title == (
        "The request waited 400 ms for lock `RANKS_LOCK` at rerank (app/ranker.py:88), "
        "which thread refresher held in refresh (app/ranker.py:120)"
    )
    assert (finding.site.line, finding.related_site.line) == (88, 120)


def test_a_lock_that_only_the_samples_saw_has_no_holder_and_says_so(make):
    spike = make.spike(500, samples=make.samples(100, 500, make.frame("rerank", 88, "acquire")))
    (finding,) = judge(spike).findings
    assert finding.kind is Kind.LOCK_WAIT
    assert finding.related_site is None
    assert "Who held the lock was not seen" in finding.evidence


@pytest.mark.parametrize(
    ("callee", "title"),
    [
        ("write", "`write()` in log (app/log.py:55) blocked the request for 400 ms"),
        ("", "Python in log (app/log.py:55) held the request for 400 ms"),
    ],
)
def test_blocking_calls_and_python_are_told_apart(make, callee, title):
    spike = make.spike(500, samples=make.samples(100, 500, make.frame("log", 55, callee, "app.log")))
    (finding,) = judge(spike).findings
    assert (finding.kind, finding.title) == (Kind.HOST_GAP, title)


def test_a_module_that_is_named_item_reads_nothing_back(make):
    """``self.item(items)`` stands below torch's frames; a tensor's own ``item`` has none."""
    inside = make.frame("Module._call_impl", 1, "forward_call", "torch.nn.modules.module")
    linear = make.frame("Linear.forward", 5, "linear", "torch.nn.modules.linear")
    spike = make.spike(500, samples=make.samples(100, 500, linear, inside, make.frame("rank", 41, "item")))
    diagnosis = judge(dataclasses.replace(spike, has_device=True))
    assert Kind.HOT_SYNC not in {finding.kind for finding in (*diagnosis.findings, *diagnosis.notes)}


def test_torch_s_own_synchronize_is_a_sync(make):
    inside = make.frame("synchronize", 1, "_cuda_synchronize", "torch.cuda")
    spike = make.spike(500, samples=make.samples(100, 500, inside, make.frame("settle", 14, "synchronize")))
    (finding,) = judge(dataclasses.replace(spike, has_device=True)).findings
    assert (finding.kind, finding.site.line) == (Kind.HOT_SYNC, 14)


def test_a_sync_is_only_named_where_a_device_is_and_promises_no_gain(make):
    work = make.samples(100, 400, make.frame("record", 41, "item"))
    after = make.samples(400, 430, make.frame("reply", 9))
    (finding,) = judge(make.spike(500, samples=work + after, has_device=True)).findings
    assert finding.kind is Kind.HOT_SYNC
    assert finding.title == "`.item()` in record (app/ranker.py:41) made the host wait 300 ms for the device"
    assert any("may gain less" in caveat for caveat in finding.caveats)
    assert not any("hand-over" in caveat for caveat in finding.caveats)
    (handed_over,) = judge(make.spike(500, samples=work, has_device=True)).findings
    assert any("hand-over" in caveat for caveat in handed_over.caveats)
    assert handed_over.confidence < finding.confidence
    (on_cpu,) = judge(make.spike(500, samples=work, has_device=False)).findings
    assert on_cpu.kind is Kind.HOST_GAP


def test_a_compilation_is_a_recompile_also_for_a_new_shape(make):
    event = CompileEvent(make.START + 20 * make.MS, 450 * make.MS, "dynamo", "3/1", 1)
    spike = dataclasses.replace(make.spike(500, compiles=(event,)), rule="new_shape")
    diagnosis = judge(spike)
    assert [finding.kind for finding in diagnosis.findings] == [Kind.RECOMPILE]
    assert "Compile ids: 3/1" in diagnosis.findings[0].evidence


def test_compilations_are_told_apart_by_the_line_that_called_them(make):
    ranks = tuple(
        CompileEvent(make.START + at * make.MS, 90 * make.MS, "dynamo", "3/1", 1, (make.frame("rank", 14, "ranker"),))
        for at in (20, 120)
    )
    embeds = CompileEvent(
        make.START + 230 * make.MS, 220 * make.MS, "dynamo", "4/1", 1, (make.frame("embed", 31, "tower"),)
    )
    first, second = judge(make.spike(500, compiles=(*ranks, embeds))).findings
    assert (first.kind, first.site.line, first.site.how, first.per_request_ms) == (
        Kind.RECOMPILE, 31, "compile_callback", 220.0
    )  # fmt: skip
    assert first.site.exact
    assert "`tower()`" in first.title
    assert (second.site.line, second.per_request_ms, second.occurrences_per_request) == (14, 180.0, 2.0)


def test_a_new_shape_without_a_compilation_is_a_first_call(make):
    shape = Workload(("float32[8,3,224,224]@cuda:0",))
    unit = UnitRecord(1, "Ranker", make.START + 20 * make.MS, 470 * make.MS, thread_id=1, workload=shape)
    spike = make.spike(500, samples=make.samples(100, 500, make.frame("forward", 7, "conv2d")), units=(unit,))
    request = dataclasses.replace(spike.request, workload=shape)
    spike = dataclasses.replace(spike, rule="new_shape", request=request)
    (finding,) = judge(spike).findings
    assert finding.kind is Kind.FIRST_CALL
    assert finding.title == "The first request with float32[8,3,224,224]@cuda:0 took 500 ms instead of 20.0 ms"
    assert finding.recoverable_ms == 470.0
    assert finding.evidence[0] == "470 ms of it in Ranker with this shape"
    others = (
        dataclasses.replace(unit, duration_ns=10 * make.MS),
        dataclasses.replace(unit, start_unix_ns=make.START - 5 * make.MS),
        dataclasses.replace(unit, duration_ns=490 * make.MS),
        dataclasses.replace(unit, workload=Workload(("float32[2,64]@cpu",))),
    )
    for other in others:
        assert judge(dataclasses.replace(spike, units=(other,))).findings == ()


def test_a_cause_that_covers_less_than_half_says_so_in_its_title(make):
    spike = make.spike(
        500,
        gc=(GcPause(make.START, 150 * make.MS, 2, 0, 1, 1, explicit=False),),
        samples=make.samples(150, 500, make.frame("forward", 7, "linear", "torch.nn.functional")),
    )
    diagnosis = judge(spike)
    assert diagnosis.findings[0].title.startswith("In part (31 % of the overrun): A garbage collection")
    assert "covers 31 %" in diagnosis.reason


def test_what_covers_less_than_a_quarter_is_no_cause(make):
    pause = GcPause(make.START, 100 * make.MS, 2, 0, 1, 1, explicit=False)
    diagnosis = judge(make.spike(500, gc=(pause,)))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.findings == ()
    assert [note.kind for note in diagnosis.notes] == [Kind.GC_PAUSE]
    assert "nothing that was seen explains a quarter" in diagnosis.reason


def test_slow_operators_are_no_gap_of_the_host(make):
    spike = make.spike(500, samples=make.samples(100, 500, make.frame("forward", 7, "linear")))
    diagnosis = judge(spike)
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.findings == ()
    assert "400 ms of it passed inside the model's operators in forward (app/ranker.py:7)" in diagnosis.reason


def test_a_spike_without_evidence_says_that_nothing_was_seen(make):
    diagnosis = judge(make.spike(500))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert "no sample found its threads" in diagnosis.reason


def test_time_before_the_first_sample_does_not_count_against_the_line(make):
    spike = make.spike(130, samples=make.samples(100, 130, make.frame("log", 55, "write")))
    (finding,) = judge(spike).findings
    assert finding.share_of_overrun == 1.0
    assert finding.recoverable_ms == 30.0
    assert "100 % of the 30.0 ms that were watched; the request overran by 110 ms" in finding.evidence[-1]


SOCKET_SEND = ("_SelectorSocketTransport.write", 1057, "send", "asyncio.selector_events")


def late(sample, late_ms, make):
    return dataclasses.replace(sample, late_ns=late_ms * make.MS)


def test_who_of_two_held_the_interpreter_is_not_guessed(make):
    own = late(make.sample(198, make.frame("parse", 12, "loads"), weight_ms=98), 90, make)
    beside = make.sample(198, make.frame("load", 8, "loads", "app.load"), role="other", thread=3, name="loader")
    diagnosis = judge(make.spike(210, samples=(own, late(beside, 90, make))))
    assert diagnosis.findings == ()
    (note,) = diagnosis.notes
    assert note.title == "The interpreter was held, or the process was not scheduled, for 98.0 ms"
    assert (note.kind, note.site, note.confidence) == (Kind.HOST_GAP, None, 0.2)
    assert "no two looks in a row found a thread at one place" in diagnosis.reason
    assert note.evidence[:2] == (
        "Midwatch's own thread came 90.0 ms late to look",
        (
            "At work when it came: the request's own thread in parse (app/ranker.py:12); "
            "thread loader in load (app/load.py:8)"
        ),
    )


def test_the_only_other_thread_that_may_have_held_the_interpreter_is_gil_contention(make):
    """The request's own thread waited for the interpreter, or for a core: the send did not take that long."""
    loop = make.frame("reply", 30, "write")
    own = late(make.sample(198, make.frame(*SOCKET_SEND), loop, weight_ms=98), 90, make)
    beside = make.sample(198, make.frame("load", 8, "loads", "app.load"), role="other", thread=3, name="loader")
    (finding,) = judge(make.spike(210, is_async=True, samples=(own, late(beside, 90, make)))).findings
    assert (finding.kind, finding.confidence) == (Kind.GIL_CONTENTION, 0.5)
    assert (finding.site.function, finding.site.line, finding.site.exact) == ("load", 0, False)
    assert finding.title == (
        "The interpreter was held, or the process was not scheduled, for 98.0 ms; "
        "only thread loader was in a call that can hold it at the end, in `loads()` of load (app/load.py)"
    )


def test_the_only_thread_at_work_after_a_late_look_is_named_and_its_line_not_claimed(make):
    own = late(make.sample(450, make.frame("parse", 12, "loads"), weight_ms=400), 390, make)
    idle = make.sample(450, make.frame("wait", module="threading"), role="other", thread=3)
    (finding,) = judge(make.spike(500, samples=(own, idle))).findings
    assert finding.title.endswith(
        "for 400 ms; only the request's own thread was at work at the end, in `loads()` of parse (app/ranker.py)"
    )
    site = finding.site
    assert (site.function, site.line, site.exact, finding.confidence) == ("parse", 0, False, 0.5)


@pytest.mark.parametrize(("cpu_ms", "exact"), [(495, True), (126, True), (124, False), (0, False)])
def test_a_call_that_its_threads_cpu_time_proves_to_have_held_the_interpreter_is_claimed(make, cpu_ms, exact):
    own = late(make.sample(450, make.frame("parse", 12, "loads"), weight_ms=400), 390, make)
    spike = make.spike(500, samples=(own,))
    spike = dataclasses.replace(spike, request=dataclasses.replace(spike.request, cpu_ns=cpu_ms * make.MS))
    (finding,) = judge(spike).findings
    assert (finding.kind, finding.site.exact, finding.site.line) == (Kind.HOST_GAP, exact, 12 if exact else 0)
    if exact:
        assert finding.title == (
            "`loads()` in parse (app/ranker.py:12) held the interpreter, and with it the request, for 400 ms"
        )
        assert (
            finding.evidence[1]
            == f"The request's own thread ran for {cpu_ms - 110}{'.0' if cpu_ms < 210 else ''} ms of that"
        )


def held_by(make, *, ran_ms=76, late_ms=80, callee="sorted", role="other"):
    """A request that waits in an event, and a thread in a call, as a late look found them."""
    looks = {"weight_ms": 90, "late_ms": late_ms}
    wait = make.frame("wait", module="threading"), make.frame("rank", 40, "wait")
    holder = make.frame("refresh", 8, callee, "app.load")
    own = make.sample(100, *wait, **looks)
    return make.spike(
        110, samples=(own, make.sample(100, holder, role=role, thread=3, name="refresher", ran_ms=ran_ms, **looks))
    )


def test_a_thread_that_alone_ran_while_the_look_waited_held_the_interpreter_and_its_line_is_claimed(make):
    (finding,) = judge(held_by(make)).findings
    assert finding.title == (
        "`sorted()` in refresh (app/load.py:8), on thread refresher, held the interpreter, and with it the request, "
        "for 80.0 ms"
    )
    assert (finding.kind, finding.site.line, finding.site.exact) == (Kind.GIL_CONTENTION, 8, True)
    assert finding.evidence[:2] == (
        "Midwatch's own thread came 80.0 ms late to look",
        "Of all threads thread refresher alone ran meanwhile, for 76.0 ms at least",
    )


@pytest.mark.parametrize(
    "spike",
    [
        {"ran_ms": 0},  # it did not run, or others did, too
        {"late_ms": 9},  # not late enough to tell of anything
        {"callee": "compress"},  # it may have let go of the interpreter meanwhile
        {"callee": ""},  # plain Python hands it over
    ],
)
def test_who_held_the_interpreter_is_not_claimed_where_that_is_not_proven(make, spike):
    assert judge(held_by(make, **spike)).findings == ()


def test_what_another_thread_compiled_has_no_line_of_the_requests(make):
    stack = (make.frame("warm_up", 70, "ranker", "app.warm"),)
    event = CompileEvent(make.START + 20 * make.MS, 450 * make.MS, "dynamo", "3/1", 9, stack)
    (finding,) = judge(make.spike(500, compiles=(event,))).findings
    assert (finding.kind, finding.site) == (Kind.RECOMPILE, None)
    assert finding.title.startswith("Compilation on the request path")


def test_in_an_event_loop_the_threads_cpu_time_is_not_the_requests(make):
    own = late(make.sample(450, make.frame("parse", 12, "loads"), weight_ms=400), 390, make)
    spike = make.spike(500, is_async=True, samples=(own,))
    spike = dataclasses.replace(spike, request=dataclasses.replace(spike.request, cpu_ns=490 * make.MS))
    (finding,) = judge(spike).findings
    assert not finding.site.exact


@pytest.mark.parametrize(("callee", "function"), [("call_soon_threadsafe", None), ("tokens", "_run")])
def test_a_single_look_claims_no_duration(make, callee, function):
    unit = UnitRecord(1, "Ranker", make.START, 10 * make.MS, thread_id=2)
    look = make.sample(65, make.frame("_run", 55, callee), weight_ms=65, role="unit", thread=2, name="batcher")
    diagnosis = judge(make.spike(70, is_async=True, samples=(look,), units=(unit,)))
    assert diagnosis.findings == ()
    (note,) = diagnosis.notes
    assert note.title == (
        "Where 65.0 ms went is not known: single looks at the end found thread batcher in _run (app/ranker.py:55)"
    )
    assert (note.site.function if note.site else None) == function
    assert not (note.site and (note.site.exact or note.site.line))
