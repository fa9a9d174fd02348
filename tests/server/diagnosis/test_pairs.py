"""What windows of faulty services on an H200 predict to gain, beside what their repaired twins gained there."""

import functools
import json
from pathlib import Path

import pytest
from midwatch.model.finding import Kind
from midwatch.trace import summarise
from midwatch_server.diagnosis import Evidence, diagnose

FOLDER = Path(__file__).parents[2] / "data" / "pairs"
PAIRS = {pair["service"]: pair for pair in json.loads((FOLDER / "measured.json").read_text())["pairs"]}
MISSED = {"pageable_copy", "empty_cache", "python_gap"}
"""docs/predictions.md says why."""
NEAR_SHARE, NEAR_MS = 0.25, 0.1


@functools.cache
def judged(name):
    summary = summarise(FOLDER / f"{name}.json.gz")
    return summary, diagnose(Evidence(summary=summary))


def predicted_ms(name):
    """The gain that the finding in question tells; of a suspect that gains nothing, that of its wait."""
    summary, diagnosis = judged(name)
    pair = PAIRS[name]
    if pair["suspect"]:
        (wait,) = [wait for wait in summary.waits if wait.site is not None and wait.site.function == pair["suspect"]]
        return wait.recoverable_ms
    return next(finding.recoverable_ms for finding in diagnosis.findings if finding.kind == pair["kind"])


def holds(name, gain_ms):
    real_ms = PAIRS[name]["gained_ms"]
    return abs(gain_ms - real_ms) <= max(NEAR_MS, NEAR_SHARE * abs(real_ms))


@pytest.mark.parametrize("name", PAIRS)
def test_a_prediction_stays_what_it_was(name):
    assert predicted_ms(name) == pytest.approx(PAIRS[name]["fixture"]["predicted_ms"], rel=0.05, abs=0.002)


@pytest.mark.parametrize("name", PAIRS)
def test_a_fixture_predicts_what_the_whole_window_did(name):
    pair = PAIRS[name]
    assert pair["fixture"]["predicted_ms"] == pytest.approx(pair["predicted_ms"], rel=0.03)


@pytest.mark.parametrize("name", PAIRS)
def test_the_planted_fault_is_the_first_finding(name):
    _, diagnosis = judged(name)
    first = diagnosis.findings[0].kind if diagnosis.findings else diagnosis.verdict
    assert first.value == PAIRS[name]["kind"]


def test_eleven_of_fourteen_predictions_hold_and_those_that_do_not_are_known():
    assert len(PAIRS) == 14
    assert {name for name in PAIRS if not holds(name, predicted_ms(name))} == MISSED


def test_a_replay_that_told_twice_or_half_as_much_would_be_seen():
    """The measure itself: a prediction that holds does not hold by chance, but near nothing at all."""
    told = [name for name in PAIRS if name not in MISSED and PAIRS[name]["gained_ms"] > NEAR_MS]
    assert len(told) >= 8
    assert [name for name in told if holds(name, 2 * predicted_ms(name)) or holds(name, predicted_ms(name) / 2)] == []


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair["suspect"]])
def test_a_suspect_that_gains_nothing_is_no_finding(name):
    summary, diagnosis = judged(name)
    assert Kind.HOT_SYNC not in {finding.kind for finding in diagnosis.findings}
    (wait,) = [wait for wait in summary.waits if wait.site is not None and wait.site.function == PAIRS[name]["suspect"]]
    assert wait.followed_by_work > 0, "the wait is not the hand-over of the result: work is launched behind it"
    assert wait.recoverable_ms < 0.02 * summary.request_p50_ms


@pytest.mark.parametrize("name", PAIRS)
def test_the_recorded_judgement_is_that_of_the_figures_beside_it(name):
    pair = PAIRS[name]
    assert pair["holds"] is holds(name, pair["predicted_ms"])
    assert pair["predicted_ms"] in pair["windows_ms"]
