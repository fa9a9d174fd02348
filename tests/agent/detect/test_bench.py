"""What the detection bench says of one short scenario, and of labels that are not the committed ones."""

import detection
import pytest
from series import labels
from series.inject import pair
from series.rules import CEILING, RULES
from series.scenarios import SCENARIOS

LOW = next(scenario for scenario in SCENARIOS if scenario.name == "low-traffic")


def test_every_rule_and_the_ceiling_are_scored_on_both_variants():
    untouched, injected = pair(LOW, 1)
    scores = detection.measure(untouched, injected, limit=3.5)
    assert list(scores) == [*RULES, CEILING]
    for one in scores.values():
        assert one.requests == len(untouched) + len(injected)
        assert one.spikes == len(injected.spikes())
        assert one.clear == scores[CEILING].found
        assert sum(whole for name, (_, whole) in one.patterns.items() if "bars" in name) == one.spikes
    assert scores[CEILING].in_healthy == (untouched.latency_ms / untouched.level_ms > 3.5).sum()
    assert scores[CEILING].clear_recall == 1.0


def test_the_check_names_what_differs():
    entry = labels.read()["steady"]["1"]
    assert detection.differences({"steady": {"1": entry}}) == []
    other = entry | {"injected_sha256": "0" * 64}
    assert detection.differences({"steady": {"1": other}}) == [
        "steady, seed 1: injected_sha256 is not what labels.json says"
    ]


def test_a_recorded_series_is_scored_without_a_ceiling(tmp_path):
    path = tmp_path / "night.csv"
    lines = [f"{number},{10 + number % 5}," for number in range(1000)]
    path.write_text("\n".join(["seconds,latency_ms,label", *lines, "1000,700,stall", ""]))
    table = detection.run_recorded([path])
    assert list(table["night"]) == list(RULES)
    assert table["night"]["midwatch"].recall == 1.0
    assert table["night"]["midwatch"].alarms_an_hour[0] == pytest.approx(0.0)
