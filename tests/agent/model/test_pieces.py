import json

from midwatch.model.capture import Capture
from midwatch.model.pieces import in_pieces, list_in_pieces, pieces
from midwatch.model.plain import to_plain
from midwatch.model.requests import RequestRecord
from midwatch.model.resource import Resource
from midwatch.model.samples import StackSample
from midwatch.model.site import Frame
from midwatch.model.spike import Baseline, Spike
from midwatch.model.tracks import SampleRow, Tracks


def spike(samples):
    frames = tuple(Frame(f"файл{n}.py", n, "rank", "app", 'say "hi"\\') for n in range(4))
    looks = tuple(StackSample(n, 1, 2, "server", "request", frames, 10) for n in range(samples))
    return Spike("s", RequestRecord(1, "rank", 5, 6), 1.5, "sketch", Baseline(1, 2.0, 3.0, 4.0), samples=looks)


def test_the_text_is_that_of_the_plain_value():
    tracks = Tracks(Resource("a", "svc"), Capture("c", "demand", "done"), samples=(SampleRow(1, 2, 3, 4),) * 7)
    for value in (spike(0), spike(1), spike(10), tracks):
        text = in_pieces(value, lambda: None).text
        assert text == json.dumps(to_plain(value), separators=(",", ":"))


def test_several_values_as_a_list():
    values = [SampleRow(n, 2, 3, 4) for n in range(5)]
    for some in (values, values[:1], []):
        assert list_in_pieces(some, lambda: None).text == json.dumps(to_plain(some), separators=(",", ":"))


def test_the_way_is_given_before_each_few_items_and_what_lies_between_is_small():
    begun = []
    longest = max(map(len, pieces(spike(30), lambda: begun.append(1))))
    assert len(begun) == 10
    assert longest < len(in_pieces(spike(30), lambda: None).text) / 8
