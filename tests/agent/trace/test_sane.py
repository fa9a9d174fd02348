"""Records of the agent's own that no clock shows are left out, and the rest is read."""

from dataclasses import replace

import pytest
from midwatch.model.samples import GcPause
from midwatch.trace import summarise

FOREVER_NS, YEAR_1970_NS = 2**63 - 1, -1


@pytest.fixture
def written(lanes, make_agent, tmp_path):
    """Writes three requests of 10 ms, after ``change`` has been made to the tracks, and reads them."""

    def write(change):
        agent = make_agent((0.0, 100_000.0))
        for start in (0, 20_000, 40_000):
            lanes.op("aten::mm", start, start + 9_000)
            agent.request(start, start + 10_000)
        return summarise(lanes.write(tmp_path, change(agent.tracks())))

    return write


@pytest.mark.parametrize("wrong", [{"duration_ns": -(2**63)}, {"duration_ns": FOREVER_NS},
                                   {"start_unix_ns": YEAR_1970_NS}, {"start_unix_ns": FOREVER_NS}])  # fmt: skip
def test_a_request_of_an_impossible_time_costs_itself(written, wrong):
    def change(tracks):
        first, *others = tracks.requests
        return replace(tracks, requests=(replace(first, **wrong), *others))

    summary = written(change)
    assert summary.window.requests == 2
    assert [request.wall_ms for request in summary.requests] == [10.0, 10.0]
    (caveat,) = [caveat for caveat in summary.window.caveats if caveat.code == "bad_tracks"]
    assert caveat.text == "Of the agent's own records 1 with impossible times is left out."


def test_a_count_that_no_memory_holds_is_not_known(written):
    def change(tracks):
        start = tracks.requests[0].start_unix_ns
        pauses = [GcPause(start + at, 2_000_000, 2, count, 0, 0, explicit=False)
                  for at, count in ((1_000_000, 7), (5_000_000, FOREVER_NS))]  # fmt: skip
        return replace(tracks, gc=tuple(pauses))

    (facts,) = written(change).gc
    assert (facts.count, facts.collected) == (2, 7)
