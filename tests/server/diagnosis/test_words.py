"""Figures and places as people read them."""

import pytest
from midwatch.model.site import Site
from midwatch_server.diagnosis import words


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.4, "1,234 ms"), (412.2, "412 ms"), (4.94, "4.9 ms"), (0.21, "0.21 ms"), (0.0071, "7.1 us"), (0.0, "0 ms")],
)
def test_milliseconds_keep_two_or_three_figures(value, text):
    assert words.ms(value) == text


def test_a_line_is_only_called_a_line_where_it_was_seen():
    exact = Site("metrics.py", 41, "record_confidence", exact=True)
    assert words.place(exact) == "record_confidence (metrics.py:41)"
    entry = Site("metrics.py", 38, "record_confidence", exact=False)
    assert words.place(entry) == "record_confidence (metrics.py)"
    assert words.place(Site("metrics.py", 0, "record_confidence")) == "record_confidence (metrics.py)"
    assert words.place(Site("", 0, "record_confidence")) == "record_confidence"


@pytest.mark.parametrize(
    ("value", "noun", "text"),
    [
        (1, "wait", "1 wait"),
        (6, "wait", "6 waits"),
        (2, "copy", "2 copies"),
        (2.5, "launch", "2.5 launches"),
        (0, "sync", "0 syncs"),
    ],
)
def test_nouns_follow_their_number(value, noun, text):
    assert words.plural(value, noun) == text


def test_shares_and_sizes():
    assert words.percent(0.384) == "38 %"
    assert words.percent(0.004) == "0.4 %"
    assert words.percent(0.0) == "0 %"
    assert words.size(12) == "12 B"
    assert words.size(999) == "999 B"
    assert words.size(999.7) == "1.0 kB"
    assert words.size(48_300) == "48.3 kB"
    assert words.size(999_960) == "1.0 MB"
    assert words.size(999_950_001) == "1.0 GB"
    assert words.size(3_200_000) == "3.2 MB"
    assert words.size(5e12) == "5000.0 GB"
