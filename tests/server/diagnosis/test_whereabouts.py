"""A service without a device: clean with a reason, or what to do to get an answer."""

import dataclasses

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.model.site import Site
from midwatch.model.trace import Caveat, GapFacts, TimeFacts
from midwatch_server.diagnosis import Evidence, diagnose

COLLECT = Site("app/batcher.py", 62, "Batcher._collect", exact=True, how="sample", callee="get")
HANDLER = Site("svc.py", 10, "handler", exact=True, how="sample", callee="result")
TOWER = Site("app/model.py", 31, "Towers.forward", exact=True, how="sample")
RULES = Site("app/rules.py", 14, "penalties", exact=True, how="sample")
WAITING = TimeFacts("idle", 0.44, 4.4, 22, "batcher", COLLECT)


def on_the_host(make, *time, op_ms=2.0, lanes=("host_ops", "ledger", "samples"), **more):
    summary = make.window(lanes=lanes, time=time, **more)
    requests = tuple(
        dataclasses.replace(request, op_ms=op_ms, device_busy_ms=0.0, launches=0, kernels=0)
        for request in summary.requests
    )
    empty = dataclasses.replace(summary.device, present=False, launches=0, kernels=0, busy_ms=0.0)
    return dataclasses.replace(summary, requests=requests, device=empty)


def judge(summary):
    return diagnose(Evidence(summary=summary))


def test_a_clean_request_says_where_its_time_goes(make):
    summary = on_the_host(
        make,
        WAITING,
        TimeFacts("ops", 0.2, 2.0),
        TimeFacts("glue", 0.09, 0.9, 4, "batcher", TOWER),
        TimeFacts("held", 0.18, 1.8, 9),
        TimeFacts("glue", 0.03, 0.3, 1, "batcher", COLLECT),
        TimeFacts("python", 0.02, 0.2, 1),
        TimeFacts("unknown", 0.04, 0.4),
    )
    diagnosis = judge(summary)
    assert diagnosis.verdict is Verdict.CLEAN
    assert diagnosis.reason == (
        "No cause was found in a request of 10.0 ms: about 45 % thread batcher waiting for work "
        "(`get()` in Batcher._collect (app/batcher.py:62)); 20 % operators; about 20 % the interpreter held, by this "
        "or another thread; about 10 % Python between operators, PyTorch's own included, most of it in Towers.forward "
        "(app/model.py:31). Estimated from 37 stack samples: give or take 6 % of the whole."
    )


def test_operators_that_fill_the_request_are_its_work_and_the_rest_is_told(make):
    diagnosis = judge(
        on_the_host(make, TimeFacts("ops", 0.8, 8.0), TimeFacts("queued", 0.2, 2.0, 0, "batcher"), op_ms=8.0)
    )
    assert diagnosis.reason == (
        "Operators on the CPU run for 80 % of the request, and no cause was found; the rest: "
        "20 % thread batcher working for other requests. It waits 2.0 ms for its turn, while thread batcher works for "
        "other requests: larger batches or another worker would shorten that."
    )


@pytest.mark.parametrize(
    ("wait", "told", "remedy"),
    [
        (
            TimeFacts("idle", 0.94, 470.0, 900, "", HANDLER, 6),
            "about 95 % waiting for an event or another thread (`result()` in handler (svc.py:10)). Estim",
            (
                "It waits about 470 ms in handler (svc.py:10) for something that these samples do not show: time the "
                "HTTP, database and other calls that it awaits."
            ),
        ),
        (
            TimeFacts("outside", 0.94, 470.0, 900, "", HANDLER, 6),
            "about 95 % waiting for something outside of this process (`result()` in handler (svc.py:10))",
            (
                "It waits about 470 ms in handler (svc.py:10) for something outside of this process: look there for "
                "the cause, or time the call."
            ),
        ),
        (
            TimeFacts("queued", 0.94, 470.0, 0, "model", None, 6),
            "94 % thread model working for other requests",
            (
                "It waits 470 ms for its turn, while thread model works for other requests: larger batches or another "
                "worker would shorten that."
            ),
        ),
    ],
)
def test_a_request_that_waits_for_what_is_not_known_is_not_clean(make, wait, told, remedy):
    ops = TimeFacts("ops", 0.04, 20.0)
    diagnosis = judge(on_the_host(make, wait, ops, wall_ms=500.0, op_ms=20.0))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.reason.startswith("No cause was found in a request of 500 ms: " + told)
    assert diagnosis.reason.endswith(" " + remedy)


def test_waiting_in_several_places_names_the_one_that_takes_most(make):
    waits = (TimeFacts("idle", 0.5, 5.0, 30, "", HANDLER), TimeFacts("idle", 0.4, 4.0, 20, "", RULES))
    assert (
        "It waits about 9.0 ms, most of it in handler (svc.py:10), for something"
        in judge(on_the_host(make, *waits)).reason
    )


def test_a_thread_that_waits_for_work_is_known_and_a_small_wait_needs_no_word(make):
    diagnosis = judge(on_the_host(make, TimeFacts("idle", 0.15, 1.5, 9), TimeFacts("gc", 0.2, 2.0), WAITING))
    assert diagnosis.verdict is Verdict.CLEAN
    assert diagnosis.reason.endswith("of the whole.")


@pytest.mark.parametrize(
    ("time", "lanes", "said"),
    [
        ((TimeFacts("unknown", 0.8, 8.0, 4),), ("host_ops", "ledger", "samples"), "4 stack samples fell into the rest"),
        ((TimeFacts("unknown", 0.8, 8.0, 4),), ("host_ops", "ledger", "samples"), "--requests 100"),
        ((TimeFacts("held", 0.7, 7.0, 20),), ("host_ops", "ledger", "samples"), "about 70 % the interpreter held"),
        ((TimeFacts("unknown", 0.8, 8.0),), ("host_ops",), "is not known; take a window with the agent"),
        ((TimeFacts("unknown", 0.8, 8.0),), ("host_ops",), "or record the trace with with_stack=True"),
        ((), ("host_ops", "python"), "take a window with the agent (midwatch profile SERVICE)"),
    ],
)
def test_what_is_not_known_comes_with_what_to_do_about_it(make, time, lanes, said):
    diagnosis = judge(on_the_host(make, TimeFacts("ops", 0.2, 2.0), *time, lanes=lanes))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert said in diagnosis.reason
    assert ("with_stack" in diagnosis.reason) is (lanes == ("host_ops",))


def test_a_file_that_ends_early_is_to_be_recorded_again(make):
    summary = on_the_host(make)
    window = dataclasses.replace(summary.window, caveats=(Caveat("truncated", "The file ends in the middle."),))
    assert judge(dataclasses.replace(summary, window=window)).reason.endswith("copy the file when it is complete.")


def test_a_device_of_which_too_little_is_known_asks_for_a_longer_window(make):
    reason = judge(make.window(busy_ms=2.0, lanes=("runtime", "device", "ledger", "samples"))).reason
    assert reason.endswith("; take a longer window (midwatch profile SERVICE --requests 100).")


def test_python_in_pieces_too_short_for_a_gap_is_a_cause_where_enough_samples_saw_it(make):
    scattered = TimeFacts("python", 0.3, 3.0, 24, "batcher", RULES, 9)
    (finding,) = judge(on_the_host(make, WAITING, scattered)).findings
    assert (finding.kind, finding.site, finding.recoverable_ms) == (Kind.HOST_GAP, RULES, 3.0)
    assert finding.title == (
        "Python in penalties (app/rules.py:14) runs for about 3.0 ms in a request, in pieces between operators"
    )
    assert finding.caveats == ("Estimated from samples: give or take 20 % of the figure",)
    for too_little in ({"samples": 5}, {"requests": 2}):
        rare = dataclasses.replace(scattered, **too_little)
        assert judge(on_the_host(make, WAITING, rare)).findings == ()


def test_one_place_is_one_finding_whether_in_gaps_or_in_pieces(make):
    scattered = TimeFacts("python", 0.3, 3.0, 24, "batcher", RULES, 9)
    whole = GapFacts("python", 10, 28.0, 3.0, 10, 2.8, 2.8, device=False, site=RULES)
    (finding,) = judge(on_the_host(make, scattered, gaps=(whole,))).findings
    assert finding.recoverable_ms == 2.8
    rare = dataclasses.replace(whole, requests_affected=1, count=1)
    (finding,) = judge(on_the_host(make, scattered, gaps=(rare,))).findings
    assert finding.recoverable_ms == 3.0


def test_a_gap_without_a_witness_is_not_listed_where_samples_tell_the_time(make):
    nameless = GapFacts("unknown", 10, 10.0, 1.0, 10, 1.0, 1.0, device=False)
    told = (WAITING, TimeFacts("ops", 0.5, 5.0))
    for host in ("unknown", "python"):
        gap = dataclasses.replace(nameless, host=host)
        assert judge(on_the_host(make, *told, gaps=(gap,))).notes == ()
    (note,) = judge(on_the_host(make, gaps=(nameless,))).notes
    assert "unrecorded" in note.title


def test_moments_outside_of_the_window_are_not_told(make):
    gap = GapFacts("python", 10, 40.0, 4.0, 10, 4.0, 4.0, site=RULES, starts_ms=(-143.0, 12.0, 9e9))
    (finding,) = judge(make.window(gaps=(gap,))).findings
    assert finding.evidence[-1] == "The longest takes 4.0 ms; look at 12.000 ms of the window"
    outside = dataclasses.replace(gap, starts_ms=(-143.0,))
    assert judge(make.window(gaps=(outside,))).findings[0].evidence[-1] == "The longest takes 4.0 ms"


def test_a_window_without_a_request_does_not_ask_for_another_one_of_its_kind(make):
    summary = on_the_host(make, lanes=(), op_ms=0.0)
    idle = Caveat("idle", "The agent saw no request in this window: figures refer to the window as a whole.")
    window = dataclasses.replace(summary.window, basis="window", duration_ms=1001.0, requests=1, caveats=(idle,))
    diagnosis = judge(dataclasses.replace(summary, window=window))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.reason.startswith("The service served no request in the window of 1,001 ms")
    assert "send it requests" in diagnosis.reason
    assert "--seconds" in diagnosis.reason
    assert "take a window" not in diagnosis.reason
    assert "no_requests" not in {caveat.code for caveat in diagnosis.caveats}


def test_a_file_that_ends_in_the_middle_clears_nobody(make):
    """The device's work comes last in a file, so a half of it looks like a service without a device."""
    summary = on_the_host(make, op_ms=8.0)
    assert judge(summary).verdict is Verdict.CLEAN
    window = dataclasses.replace(summary.window, caveats=(Caveat("truncated", "The file ends in the middle."),))
    diagnosis = judge(dataclasses.replace(summary, window=window))
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.reason.startswith(
        "The file ends in the middle, and what is cut off may be all that the device did"
    )
    assert "Operators on the CPU run for 80 %" in diagnosis.reason


def test_work_that_no_request_marks_is_judged_all_the_same(make):
    """With MIDWATCH_UNITS=0 and nothing marked the agent sees no request of a service that works."""
    idle = Caveat("idle", "The agent saw no request in this window: figures refer to the window as a whole.")
    for summary in (make.window(busy_ms=9.0), on_the_host(make, op_ms=8.0)):
        window = dataclasses.replace(summary.window, basis="window", requests=1, caveats=(idle,))
        diagnosis = judge(dataclasses.replace(summary, window=window))
        assert diagnosis.verdict is Verdict.CLEAN


def test_a_window_of_the_agent_s_asks_for_a_longer_one_and_not_for_one_of_the_agent_s(make):
    summary = on_the_host(make, TimeFacts("ops", 0.2, 2.0), lanes=("host_ops", "ledger"))
    window = dataclasses.replace(summary.window, basis="ledger")
    reason = judge(dataclasses.replace(summary, window=window)).reason
    assert "take a longer window" in reason
    assert "with the agent" not in reason
    short = Caveat("requests_missing", "The window was to hold 20 whole requests; 3 had ended when it closed.", 17)
    window = dataclasses.replace(window, caveats=(short,))
    diagnosis = judge(dataclasses.replace(summary, window=window))
    assert "longer window" not in diagnosis.reason
    assert "send the service more requests" in diagnosis.reason
    assert short in diagnosis.caveats
