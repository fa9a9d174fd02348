"""Ranking, notes, and a window and a spike together."""

import dataclasses

from midwatch.model.finding import Kind, Verdict
from midwatch.model.samples import GcPause
from midwatch.model.site import Site
from midwatch.model.trace import GapFacts, LaunchFacts, WaitFacts
from midwatch_server.diagnosis import Evidence, diagnose
from midwatch_server.diagnosis.judge import RULES


def gap(function, cost, gain):
    return GapFacts("python", 10, cost * 10, cost, 10, cost, gain, site=Site("app.py", 1, function, exact=True))


def test_findings_are_ranked_by_gain_and_small_gains_are_notes(make):
    diagnosis = diagnose(
        Evidence(summary=make.window(gaps=(gap("some", 3.0, 1.0), gap("most", 2.0, 2.0), gap("little", 5.0, 0.4))))
    )
    assert [finding.site.function for finding in diagnosis.findings] == ["most", "some"]
    assert [note.site.function for note in diagnosis.notes] == ["little"]


def test_equal_gains_are_ranked_by_cost(make):
    diagnosis = diagnose(Evidence(summary=make.window(gaps=(gap("cheap", 1.0, 1.0), gap("dear", 3.0, 1.0)))))
    assert [finding.site.function for finding in diagnosis.findings] == ["dear", "cheap"]


def launch_bound(summary, gain):
    device = dataclasses.replace(summary.device, small_kernels=400)
    launch = LaunchFacts(per_request=40.0, dispatch_gap_ms=4.0, recoverable_ms=gain)
    return dataclasses.replace(summary, device=device, launch=launch)


def test_idle_time_behind_a_wait_is_the_wait_s_and_not_the_launches(make):
    wait = WaitFacts("item", "cudaStreamSynchronize", 10, 40.0, 4.0, 10, 2.0, 2.0, site=make.RANK)
    summary = launch_bound(make.window(busy_ms=5.0, waits=(wait,)), gain=3.0)
    first, second = diagnose(Evidence(summary=summary)).findings
    assert (first.kind, first.recoverable_ms) == (Kind.HOT_SYNC, 2.0)
    assert (second.kind, second.recoverable_ms) == (Kind.LAUNCH_BOUND, 1.0)
    assert "2.0 ms of that gain stand behind waits for the device, and are counted there" in second.evidence


def test_a_wait_that_gains_nothing_leaves_the_launches_their_time(make):
    wait = WaitFacts("item", "cudaStreamSynchronize", 10, 40.0, 4.0, 10, 2.0, 0.1, site=make.RANK)
    (finding,) = diagnose(Evidence(summary=launch_bound(make.window(busy_ms=5.0, waits=(wait,)), gain=3.0))).findings
    assert (finding.kind, finding.recoverable_ms) == (Kind.LAUNCH_BOUND, 3.0)


def test_later_findings_own_up_where_gains_cannot_add_up(make):
    summary = launch_bound(make.window(busy_ms=5.0, gaps=(gap("tokenise", 4.0, 4.0),)), gain=3.0)
    diagnosis = diagnose(Evidence(summary=summary))
    first, second = diagnosis.findings
    assert (first.kind, second.kind) == (Kind.HOST_GAP, Kind.LAUNCH_BOUND)
    assert not any("together" in caveat for caveat in first.caveats)
    assert "Shares idle time with the findings above: all of them together gain 5.0 ms at most" in second.caveats


def test_a_window_and_a_spike_are_judged_each_by_itself(make):
    pause = GcPause(make.START, 400 * make.MS, 2, 0, 1, 1, explicit=False)
    evidence = Evidence(summary=make.window(gaps=(gap("tokenise", 3.0, 3.0),)), spike=make.spike(500, gc=(pause,)))
    diagnosis = diagnose(evidence)
    assert [finding.kind for finding in diagnosis.findings] == [Kind.GC_PAUSE, Kind.HOST_GAP]
    assert [caveat.code for caveat in diagnosis.caveats] == ["untraced_unknown"]


def test_a_cause_that_window_and_spike_share_is_named_once(make):
    site = Site("app/ranker.py", 10, "tokenise", exact=True)
    window = make.window(gaps=(dataclasses.replace(gap("tokenise", 3.0, 3.0), site=site),))
    spike = make.spike(500, samples=make.samples(100, 500, make.frame("tokenise")))
    (finding,) = diagnose(Evidence(summary=window, spike=spike)).findings
    assert finding.share_of_overrun == 1.0


def test_nothing_to_judge_is_said(make):
    assert diagnose(Evidence()).verdict is Verdict.INSUFFICIENT_DATA


def test_each_rule_has_a_docstring_with_its_source():
    import sys

    for rule in RULES:
        text = sys.modules[type(rule).__module__].__doc__
        assert f"``{rule.kind.value}``" in text
        assert "Source" in text, rule.kind


def test_what_all_requests_of_the_main_route_have_recurs_though_another_route_has_more(make):
    window = make.window(requests=10, waits=(WaitFacts("item", "cudaStreamSynchronize", 4, 12.0, 3.0, 4, 3.0, 3.0),))
    requests = [dataclasses.replace(r, route="/rank" if i < 4 else "/items") for i, r in enumerate(window.requests)]
    short = [r if i < 4 else dataclasses.replace(r, wall_ms=1.0, device_busy_ms=0.4) for i, r in enumerate(requests)]
    many = dataclasses.replace(window.window, requests=100)
    starts = tuple(r.start_ms + 1 for r in short[:4])
    waits = (dataclasses.replace(window.waits[0], requests_affected=40, starts_ms=starts),)
    summary = dataclasses.replace(window, requests=tuple(short), window=many, waits=waits)
    (finding,) = diagnose(Evidence(summary=summary)).findings
    assert finding.title.endswith("in every request of /rank while more device work follows")
    assert finding.share_of_request == 0.3


def test_a_hiccup_of_a_short_request_of_another_route_is_a_note(make):
    window = make.window(requests=10)
    requests = tuple(
        r if i < 3 else dataclasses.replace(r, route="/items", wall_ms=1.4, device_busy_ms=0.0, launches=0)
        for i, r in enumerate(window.requests)
    )
    hiccup = dataclasses.replace(
        gap("load", 0.9, 0.9), count=1, requests_affected=1, starts_ms=(requests[5].start_ms + 0.1,)
    )
    diagnosis = diagnose(Evidence(summary=dataclasses.replace(window, requests=requests, gaps=(hiccup,))))
    assert diagnosis.findings == ()
    (note,) = diagnosis.notes
    assert "in 1 of 7 requests of /items" in note.title
