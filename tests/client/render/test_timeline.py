"""The small picture of lanes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from midwatch.model.trace import Lane, Timeline
from midwatch_client.render.timeline import axis, resample, timeline_lines


def picture(timeline, width, **options):
    return [line for _, line in timeline_lines(timeline, width, **options)]


def test_lanes_are_drawn_in_the_width_that_there_is():
    timeline = Timeline(0.0, 4.0, (Lane("host", "host", (100, 50, 0, 100)), Lane("device", "device", (0, 0, 100, 3))))
    assert picture(timeline, 28)[:3] == [
        "host    █████▄▄▄▄▄     █████",
        "device            █████▁▁▁▁▁",
        "        0             4.0 ms",
    ]
    assert picture(timeline, 28, unicode=False)[0] == "host    #####=====     #####"


@pytest.mark.parametrize("timeline", [Timeline(), Timeline(0.0, 4.0, (Lane("host", "host", ()),))])
def test_without_lanes_there_is_no_picture(timeline):
    assert timeline_lines(timeline, 80) == []


def test_a_terminal_too_narrow_gets_no_picture():
    assert timeline_lines(Timeline(0.0, 4.0, (Lane("device", "device", (100,)),)), 15) == []


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.integers(1, 120))
def test_resampling_keeps_the_area(cells, wanted):
    drawn = resample(tuple(cells), wanted)
    assert len(drawn) == wanted
    assert sum(drawn) / wanted == pytest.approx(sum(cells) / len(cells))
    assert all(min(cells) - 1e-9 <= share <= max(cells) + 1e-9 for share in drawn)


@given(st.floats(0.001, 1e6), st.integers(10, 96))
def test_the_axis_fits_and_ends_with_the_duration(duration_ms, cells):
    assert axis(duration_ms, cells).startswith("0")
    assert len(axis(duration_ms, cells)) <= max(cells, len("0 1,000,000 ms"))
