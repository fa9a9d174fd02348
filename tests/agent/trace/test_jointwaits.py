"""Waits in a row: one alone gains nothing, all together what the device then no longer idles."""

from __future__ import annotations

import statistics

import pytest
from midwatch.trace.summary import summarise


def in_a_row(m, *, wait=True, after=12):
    """Much work is queued; four read-backs follow, of two sizes, and then a stage of small kernels."""
    m.kernel(800)
    for _ in range(2):
        m.think(10)
        m.read(wait=wait)
        m.kernel(4)
        m.think(10)
        m.read(4096, wait=wait)
        m.kernel(4)
    for _ in range(40):
        m.think(10)
        m.kernel(after)
    m.read(4096)


def device_bound(m, *, wait=True):
    for _ in range(4):
        m.kernel(900)
        m.kernel(900)
        m.read(wait=wait)
    m.kernel(900)
    m.read(4096)


def summary_of(machine, program, folder):
    took = statistics.median(machine.run(program) for _ in range(5)) / 1000
    return took, summarise(machine.lanes.write(folder), untraced_p50_ms=took)


@pytest.mark.parametrize("after", [2, 12])
def test_together_they_gain_what_the_machine_gains_without_them(make_machine, tmp_path, after):
    took, summary = summary_of(make_machine(), lambda m: in_a_row(m, after=after), tmp_path)
    other = make_machine()
    truth = statistics.median(other.run(lambda m: in_a_row(m, wait=False, after=after)) for _ in range(5)) / 1000
    facts = {fact.cause: fact for fact in summary.joint_waits}
    assert [*facts] == ["", "item", "d2h"]
    together = facts[""]
    assert (together.count, together.requests_affected, facts["item"].count, facts["d2h"].count) == (20, 5, 10, 10)
    # The calls of the copies stay in the machine and go in the replay: 5 us each.
    assert together.recoverable_ms == pytest.approx(took - truth, abs=0.025)
    assert together.recoverable_ms <= together.idle_after_ms
    alone = sum(wait.recoverable_ms for wait in summary.waits)
    assert alone < 0.5 * together.recoverable_ms


def test_where_the_device_is_the_limit_they_gain_nothing_together(machine, tmp_path):
    took, summary = summary_of(machine, device_bound, tmp_path)
    (fact,) = summary.joint_waits
    assert (fact.cause, fact.count) == ("item", 20)
    assert fact.per_request_ms > 0.9 * (took - 1)
    assert fact.recoverable_ms < 0.01 * took


def test_one_wait_a_request_or_one_before_the_first_launch_is_not_joint(machine, tmp_path):
    def program(m):
        m.synchronize()
        m.kernel(100)
        m.read()
        m.kernel(100)
        m.read(4096)

    _, summary = summary_of(machine, program, tmp_path)
    assert summary.joint_waits == ()
