from midwatch.manners import GiveWay
from midwatch.testing import FakeClock


def test_it_rests_once_a_piece_of_work_is_done_and_then_starts_anew():
    clock = FakeClock()
    give_way = GiveWay(clock, piece_ns=200_000, rest_s=0.0003)
    give_way()
    clock.advance(0.00019)
    give_way()
    assert clock.slept == []
    clock.advance(0.00002)
    give_way()
    give_way()
    assert clock.slept == [0.0003]
    clock.advance(0.0002)
    give_way()
    assert clock.slept == [0.0003, 0.0003]
