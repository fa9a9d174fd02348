"""A mark where the stack of the host is full."""

import sys

from midwatch import request
from midwatch.guard import guard


def test_a_full_stack_neither_raises_from_a_mark_nor_leaves_one_open(tracker, monkeypatch):
    """The host has one more frame than it needs itself: what a mark lacks beyond it must not come out."""

    def marked():
        with request("deep"):
            pass

    def at(depth):
        return marked() if depth == 0 else at(depth - 1)

    monkeypatch.setattr(guard, "witness", None)
    room = sys.getrecursionlimit()
    reached = 0
    for depth in range(room - 120, room):
        tracker._asleep = True
        try:
            at(depth)
            reached = depth
        except RecursionError:
            break
        assert tracker.count() == 0
    assert reached
    tracker._asleep = False
    marked()
    assert tracker.drain()[-1].route.name == "deep"
