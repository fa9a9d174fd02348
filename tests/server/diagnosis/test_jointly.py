"""Waits that are a finding together."""

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.model.site import Site
from midwatch.model.trace import JointWaitFacts, WaitFacts
from midwatch_server.diagnosis import Evidence, diagnose

OTHER = Site("app/ranker.py", 77, "filter", "app.ranker", exact=True, how="sample", callee="cpu")


def waits(make, *gains):
    sites = (make.RANK, OTHER)
    causes = ("item", "d2h")
    return tuple(
        WaitFacts(
            causes[i], "cudaMemcpyAsync", 20, 20.0, 2.0, 10, 2.0 - i / 10, gain, followed_by_work=20, site=sites[i]
        )
        for i, gain in enumerate(gains)
    )


def joint(gain, cause="", **more):
    return JointWaitFacts(cause, 20 if cause else 40, 39.0, 10, 3.9, gain, 4.0, **more)


def judged(make, joints, *gains, **more):
    return diagnose(Evidence(summary=make.window(waits=waits(make, *gains), joint_waits=joints, **more)))


def test_what_gains_only_together_is_one_finding_with_each_site(make):
    diagnosis = judged(make, (joint(2.5), joint(0.3, "item"), joint(0.2, "d2h")), 0.1, 0.05)
    (finding,) = diagnosis.findings
    assert finding.kind is Kind.HOT_SYNC
    assert finding.title == (
        "2 `.item()`-like read-backs and 2 blocking device-to-host copies make the host wait 3.9 ms in every request "
        "while more device work follows: without all of them it takes 2.5 ms less"
    )
    assert (finding.site, finding.recoverable_ms, finding.per_request_ms) == (make.RANK, 2.5, 3.9)
    assert finding.evidence[1] == "From the first of them to the end of the request the device idles for 4.0 ms"
    first, second = finding.evidence[2:]
    assert first.startswith("20 `.item()`-like read-backs in rank (app/ranker.py:41) inside cudaMemcpyAsync, 2.0 ms")
    assert first.endswith("each request; gains 0.10 ms alone")
    assert second.startswith("20 blocking device-to-host copies in filter (app/ranker.py:77)")
    assert second.endswith("gains 0.05 ms alone")
    assert len(diagnosis.notes) == 2
    assert "gains 2.5 ms together with the others" in diagnosis.notes[0].evidence[-1]


def test_waits_of_one_cause_are_told_where_they_have_most_of_the_gain(make):
    (finding,) = judged(make, (joint(2.5), joint(2.1, "item")), 0.1, 0.05).findings
    assert finding.title.startswith("2 `.item()`-like read-backs make the host wait")
    assert finding.recoverable_ms == 2.1


@pytest.mark.parametrize("gains", [(2.3, 0.1), (1.2, 1.1)])
def test_waits_that_speak_for_themselves_are_not_told_again(make, gains):
    findings = judged(make, (joint(2.5),), *gains).findings
    assert [finding.recoverable_ms for finding in findings] == [gain for gain in gains if gain > 0.5]


def test_together_they_may_gain_nothing_either(make):
    diagnosis = judged(make, (joint(0.1),), 0.0, 0.0, busy_ms=9.6)
    assert diagnosis.findings == ()
    assert diagnosis.verdict is Verdict.CLEAN
    assert "so this is not the cause" in diagnosis.notes[0].evidence[-1]
