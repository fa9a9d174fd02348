"""Loops in real byte code: each function notes where it stands with `here`, and where that is, is known by its line."""

import sys

import pytest
from midwatch.watch.loops import Loops, loop_at
from midwatch.watch.stacks import Stacks, line_at


class Places:
    def __init__(self):
        self.of = {}

    def __call__(self, name, truth=False):
        frame = sys._getframe(1)
        self.of[name] = frame.f_code, frame.f_lasti
        return truth


def a_for(here):
    here("before")
    for _ in range(2):
        here("site")
        here("inside")
    here("after")


def a_while(here):
    left = 2
    here("before")
    while left:
        here("site")
        left -= 1
        here("inside")
    here("after")


def an_endless_while(here):
    here("before")
    while True:
        here("site")
        if here("inside", truth=True):
            break
    here("after")


def an_exception_on_the_way(here):
    here("before")
    for number in range(3):
        try:
            if number < 2:
                raise ValueError
        except ValueError:
            continue
        here("site")
        here("inside")
    here("after")


def a_continue_behind(here):
    here("before")
    for number in range(3):
        here("site")
        if number < 2:
            continue
        here("inside")
    here("after")


def an_inner_one(here):
    for _ in range(2):
        here("before")
        for _ in range(2):
            here("site")
            here("inside")
        here("after")


def one_with_many_instructions(here):
    here("before")
    for number in range(1):
        here("site")
        if number:
            exec_ = [
                number + 1 if number else number, number * 2 if number else number, number - 3 if number else number,
                number + 4 if number else number, number * 5 if number else number, number - 6 if number else number,
                number + 7 if number else number, number * 8 if number else number, number - 9 if number else number,
                number + 1 if number else number, number * 2 if number else number, number - 3 if number else number,
                number + 4 if number else number, number * 5 if number else number, number - 6 if number else number,
                number + 7 if number else number, number * 8 if number else number, number - 9 if number else number,
                number + 1 if number else number, number * 2 if number else number, number - 3 if number else number,
                number + 4 if number else number, number * 5 if number else number, number - 6 if number else number,
            ]  # fmt: skip
            here(exec_)
        here("inside")
    here("after")


@pytest.mark.parametrize(
    "function",
    [
        a_for,
        a_while,
        an_endless_while,
        an_exception_on_the_way,
        a_continue_behind,
        an_inner_one,
        one_with_many_instructions,
    ],
)
def test_the_loop_around_a_call(function):
    here = Places()
    function(here)
    loop = loop_at(*here.of["site"])
    where = {name: loop.first <= lasti // 2 <= loop.last for name, (_, lasti) in here.of.items()}
    assert where == {"before": False, "site": True, "inside": True, "after": False}


def test_no_loop():
    here = Places()
    here("site")
    for _ in range(1):
        here("other")
    assert loop_at(*here.of["site"]) is None
    assert line_at(*here.of["site"]) < line_at(*here.of["other"])


def callers(frame, outermost):
    """Where functions stand, from ``frame`` out to the one of the code ``outermost``."""
    places = [(frame.f_code, frame.f_lasti)]
    return places if frame.f_code is outermost else places + callers(frame.f_back, outermost)


def callback(depth, outermost):
    return callback(depth - 1, outermost) if depth else callers(sys._getframe(), outermost)


def test_a_call_from_a_callback_belongs_to_the_loop_further_out():
    stacks, loops = Stacks(), Loops()
    for _ in range(2):
        notes = callback(3, sys._getframe().f_code)
        loop = loops.around(notes)
        assert loop.code is sys._getframe().f_code
        assert not loop.left_by(stacks.walk(sys._getframe()))
    assert loop.left_by(stacks.walk(sys._getframe()))
    assert loop.left_by(())
    assert loops.around(notes) is loop


def test_a_stack_that_is_too_deep_to_show_the_loop_says_nothing():
    here, stacks = Places(), Stacks()
    a_for(here)
    loop = loop_at(*here.of["site"])

    def deep(left):
        return deep(left - 1) if left else stacks.walk(sys._getframe())

    assert loop.left_by(deep(10)[:40])
    assert not loop.left_by(deep(60))
