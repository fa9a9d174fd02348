"""No time is claimed twice: the arithmetic of stretches."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from midwatch_server.diagnosis.spans import Taken, clip, merge, total_ms

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda p: (min(p), max(p))), max_size=8)


def moments(some):
    return {moment for start, end in some for moment in range(start, end)}


@given(spans)
def test_merge_covers_the_same_moments_in_order_and_without_overlap(some):
    merged = merge(some)
    assert moments(merged) == moments(some)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(merged))


@given(spans, st.lists(spans, max_size=4))
def test_what_is_left_is_exactly_what_is_not_taken(some, turns):
    taken = Taken()
    for turn in turns:
        taken.take(turn)
    everything = [span for turn in turns for span in turn]
    assert taken.spans == merge(everything)
    assert moments(taken.left_of(some)) == moments(some) - moments(everything)


@given(spans, st.integers(0, 60), st.integers(0, 60))
def test_clip_keeps_what_lies_inside(some, start, end):
    assert moments(clip(some, start, end)) == moments(some) & set(range(start, end))


def test_total_counts_overlapping_time_once():
    assert total_ms([(0, 2_000_000), (1_000_000, 3_000_000)]) == 3.0
