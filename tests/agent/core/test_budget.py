import pytest
from midwatch.capture.budget import DEFAULT_S, LEAST_S, MOST_S, Budget
from midwatch.capture.routine import Routine


def spend(budget, count, at_s=0.0):
    for number in range(count):
        budget.opened(at_s + number)
        budget.ended(at_s + number, good=True)


class TestBudget:
    def test_by_itself_the_agent_takes_half_of_the_hour_and_leaves_the_rest_to_people(self):
        budget = Budget(10)
        spend(budget, 5)
        assert "budget of 5 windows an hour is spent" in budget.refuse("spike", 100.0)
        assert "budget of 5" in budget.refuse("routine", 100.0)
        assert budget.refuse("demand", 100.0) == ""
        spend(budget, 5, at_s=200.0)
        assert "budget of 10 windows" in budget.refuse("demand", 300.0)
        assert budget.refuse("spike", 3900.0) == ""

    def test_windows_are_a_second_apart(self):
        budget = Budget(10)
        assert budget.spacing_left_s(0.0) == 0.0
        budget.ended(100.0, good=True)
        assert budget.spacing_left_s(100.25) == pytest.approx(0.75)
        assert budget.spacing_left_s(102.0) == 0.0

    def test_after_a_bad_window_the_agent_cools_down_longer_each_time(self):
        budget = Budget(1000)
        for bad, expected_s in ((1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 600), (7, 600)):
            budget.ended(0.0, good=False)
            assert budget.refuse("spike", expected_s - 1.0), bad
            assert budget.refuse("spike", expected_s + 1.0) == "", bad
            assert budget.refuse("demand", 1.0) == ""
        budget.ended(0.0, good=True)
        assert budget.refuse("spike", 1.0) == ""

    @pytest.mark.parametrize(
        ("asked_s", "requests", "engine_s", "expected_s"),
        [
            (0.0, 0, 60.0, DEFAULT_S),
            (0.2, 0, 60.0, 0.2),
            (0.001, 0, 60.0, LEAST_S),
            (99.0, 0, 60.0, MOST_S),
            (0.0, 20, 60.0, MOST_S),
            (0.0, 20, 0.5, 0.5),
            (2.0, 20, 60.0, 2.0),
            (0.5, 0, 0.01, LEAST_S),
        ],
    )
    def test_how_long_a_window_may_be(self, asked_s, requests, engine_s, expected_s):
        assert Budget(10).seconds(asked_s, requests, engine_s) == expected_s

    def test_a_large_trace_makes_the_next_window_shorter(self):
        budget = Budget(10)
        budget.measured(1.0, 480 * 1024 * 1024)
        assert budget.seconds(5.0, 0, 60.0) == pytest.approx(0.1)
        budget.measured(0.0, 0)
        assert budget.seconds(5.0, 0, 60.0) == pytest.approx(0.1)
        budget.measured(1.0, 1024)
        assert budget.seconds(5.0, 0, 60.0) == 5.0


class TestRoutine:
    def test_one_look_after_warm_up_and_then_twice_an_hour(self):
        routine = Routine(2.0)
        assert not routine.due(0.0, warmed_up=False, busy=True)
        looks = [second for second in range(100, 7300) if routine.due(float(second), warmed_up=True, busy=True)]
        assert looks == [105, 1905, 3705, 5505]

    def test_a_look_that_is_due_waits_for_traffic(self):
        routine = Routine(2.0)
        routine.due(0.0, warmed_up=True, busy=False)
        assert not routine.due(100.0, warmed_up=True, busy=False)
        assert routine.due(200.0, warmed_up=True, busy=True)

    def test_zero_is_off(self):
        assert not Routine(0.0).due(1e9, warmed_up=True, busy=True)
