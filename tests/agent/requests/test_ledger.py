from midwatch.requests.ledger import Ring


class Span:
    def __init__(self, start_ns, end_ns):
        self.start_ns, self.end_ns = start_ns, end_ns


class Other(Span):
    pass


def ring_of(*spans, size=100):
    ring = Ring(size)
    for span in spans:
        ring.add(span)
    return ring


def test_spans_that_share_time_are_found():
    spans = [Span(0, 10), Span(5, 20), Span(30, 40), Span(0, 50)]
    assert ring_of(*spans).overlapping(Span, 15, 30) == spans[1:]


def test_ends_that_come_a_little_out_of_order_are_found():
    spans = [Span(0, 40), Span(0, 10)]
    assert ring_of(*spans).overlapping(Span, 35, 36) == [spans[0]]


def test_kinds_are_kept_apart_and_the_oldest_go_first():
    ring = ring_of(*(Span(n, n + 1) for n in range(10)), Other(0, 100), size=5)
    assert len(ring) == 5
    assert len(ring.overlapping(Other, 0, 1000)) == 1
    assert [span.start_ns for span in ring.overlapping(Span, 0, 1000)][:1] != [0]


def test_the_latest_is_the_last_of_those_that_share_time_and_nothing_older_is_looked_at():
    class Untouched:
        @property
        def end_ns(self):
            raise AssertionError("it was looked at")

    spans = [Span(0, 10), Span(5, 20), Span(30, 40)]
    ring = ring_of(Untouched(), *spans)
    assert ring.latest(Span, 15, 25) is spans[1]
    assert ring.latest(Span, 15, 35) is spans[2]
    assert ring_of(*spans).latest(Span, 21, 29) is None
    assert ring_of().latest(Span, 0, 1) is None
