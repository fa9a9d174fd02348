"""The labelled series of the detection bench are what they were when they were committed, and what they claim to be."""

import functools

import numpy as np
import pytest
from series import inject, labels, recorded
from series.scenarios import SCENARIOS, healthy
from series.values import SHIFT, SPIKE, TAIL, Draws, Label

SEEDS = ("1", "2")
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
pair = functools.lru_cache(maxsize=2)(inject.pair)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", BY_NAME)
def test_the_generator_still_gives_the_committed_series_and_labels(name, seed):
    assert labels.entry(*pair(BY_NAME[name], int(seed))) == labels.read()[name][seed]


def test_labels_are_committed_for_every_scenario_and_nothing_else():
    known = labels.read()
    assert list(known) == list(BY_NAME)
    assert all(tuple(seeds) == SEEDS for seeds in known.values())


@pytest.mark.parametrize("name", BY_NAME)
def test_a_spike_takes_three_medians_and_ten_milliseconds_more(name):
    _, injected = pair(BY_NAME[name], 1)
    spikes = injected.spikes()
    level_ms, latency_ms = injected.level_ms[spikes], injected.latency_ms[spikes]
    assert len(spikes) > 100
    assert spikes[0] >= BY_NAME[name].quiet
    assert (latency_ms >= 3 * level_ms).all()
    assert (latency_ms >= level_ms + 10).all()
    sizes = latency_ms / inject.bar_ms(level_ms)
    assert sizes.min() < 1.1, "some are hardly over the bar"
    assert sizes.max() > 20, "and some are extreme"


@pytest.mark.parametrize("name", BY_NAME)
def test_only_what_is_labelled_was_touched(name):
    before, _ = healthy(BY_NAME[name], 1, inject.INJECTED)
    untouched, injected = pair(BY_NAME[name], 1)
    labelled = np.zeros(len(injected), dtype=bool)
    for label in injected.labels:
        labelled[label.first : label.last + 1] = True
    assert untouched.labels == ()
    assert (before.at_us == injected.at_us).all()
    assert (before.latency_us == injected.latency_us)[~labelled].all()
    assert (before.latency_us != injected.latency_us)[injected.spikes()].mean() > 0.9


@pytest.mark.parametrize("name", BY_NAME)
def test_the_noise_of_the_two_variants_is_drawn_apart(name):
    untouched, injected = pair(BY_NAME[name], 1)
    ratios = [np.log(one.latency_ms / one.level_ms) for one in (untouched, injected)]
    assert abs(np.corrcoef(*ratios)[0, 1]) < 0.02


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - {"cold-start"}))
def test_the_level_is_the_median(name):
    untouched, _ = healthy(BY_NAME[name], 1)
    assert np.median(untouched.latency_ms / untouched.level_ms) == pytest.approx(1.0, abs=0.01)


def test_the_rate_is_that_of_the_scenario():
    for name, rate in (("steady", 100.0), ("low-traffic", 1.0)):
        untouched, _ = healthy(BY_NAME[name], 1)
        assert len(untouched) / (untouched.at_us[-1] / 1e6) == pytest.approx(rate, rel=0.02)


def test_the_tail_of_a_healthy_log_normal_is_no_label():
    before, _ = healthy(BY_NAME["heavy-tailed"], 1, inject.INJECTED)
    _, injected = pair(BY_NAME["heavy-tailed"], 1)
    slow = before.latency_ms > 3 * before.level_ms
    assert slow.mean() == pytest.approx(0.0336, abs=0.002)  # P(z > ln 3 / 0.6)
    labelled = np.isin(np.flatnonzero(slow), injected.spikes())
    assert labelled.mean() < 0.01


def test_shifts_and_tails_stand_where_they_are_injected():
    _, shifted = pair(BY_NAME["level-shift"], 1)
    shifts = [label for label in shifted.labels if label.kind == SHIFT]
    assert len(shifts) == 2
    for label in shifts:
        before = np.median(shifted.latency_ms[label.first - 500 : label.first])
        assert np.median(shifted.latency_ms[label.first : label.first + 500]) > 2 * before
    _, tailed = pair(BY_NAME["rising-tail"], 1)
    tails = [label for label in tailed.labels if label.kind == TAIL]
    assert len(tails) == 3
    for label in tails:
        ratio = tailed.latency_ms[label.last - 3000 : label.last] / tailed.level_ms[label.last - 3000 : label.last]
        assert np.median(ratio) == pytest.approx(1.0, abs=0.05)
        assert np.quantile(ratio, 0.95) > 2.0


def test_draws_have_the_distributions_they_are_named_after():
    draws = Draws("test", 1, "draws")
    assert draws.uniform(50_000).mean() == pytest.approx(0.5, abs=0.01)
    assert draws.exponential(50_000).mean() == pytest.approx(1.0, abs=0.03)
    normal = draws.normal(50_000)
    assert normal.mean() == pytest.approx(0.0, abs=0.02)
    assert normal.std() == pytest.approx(1.0, abs=0.02)
    assert np.quantile(normal, 0.975) == pytest.approx(1.96, abs=0.05)


def test_another_seed_and_another_stream_give_other_numbers():
    drawn = [
        Draws(*given).uniform(4).tolist() for given in (("a", 1, "x"), ("a", 2, "x"), ("a", 1, "y"), ("b", 1, "x"))
    ]
    assert len({tuple(one) for one in drawn}) == 4
    assert Draws("a", 1, "x").uniform(4).tolist() == drawn[0]


class TestRecorded:
    def test_a_file_with_labels(self, tmp_path):
        path = tmp_path / "checkout.csv"
        path.write_text("seconds,latency_ms,label\n100.0,5.25,\n100.5,80,spike\n101,5,0\n")
        series = recorded.read(path)
        assert series.name == "checkout"
        assert series.at_us.tolist() == [0, 500_000, 1_000_000]
        assert series.latency_us.tolist() == [5250, 80_000, 5000]
        assert series.labels == (Label(SPIKE, 1, 1),)

    def test_a_file_without(self, tmp_path):
        path = tmp_path / "plain.csv"
        path.write_text("seconds,latency_ms\n0,5\n")
        assert recorded.read(path).labels == ()

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("time,ms\n0,5\n", "no columns seconds and latency_ms"),
            ("seconds,latency_ms\n0,5\n1,slow\n", "line 3: not two numbers"),
            ("seconds,latency_ms\n0\n", "line 2: not two numbers"),
            ("seconds,latency_ms\n", "no request"),
        ],
    )
    def test_what_is_wrong_with_a_file_is_said(self, tmp_path, text, says):
        path = tmp_path / "bad.csv"
        path.write_text(text)
        with pytest.raises(ValueError, match=says):
            recorded.read(path)
