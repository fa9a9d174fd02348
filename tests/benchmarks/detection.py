"""Prints which injected spikes the detector and some simple rules find on generated latencies, and their false alarms.

Every scenario is generated twice from each seed, each time with noise of its own: untouched, where each flag is a
false alarm, and with spikes, rising tails and level shifts injected. The labels are the injected list. What is
injected stands in `series/inject.py`, what counts in `series/score.py`, and the rules in `series/rules.py`. Beside
them stands a ceiling: the best that any rule with one limit could do that knows the true median of every moment and
is allowed one false alarm an hour on average. Spikes over that limit are called clear; no rule with one limit finds
the others without more alarms. False alarms an hour are of an hour with 360000 requests, that is at 100 requests a
second.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from series import labels, recorded
from series.inject import bar_ms, pair
from series.rules import CEILING, RULES, ceiling, noise_limit
from series.scenarios import SCENARIOS
from series.score import Score, score
from series.values import Answer, Series

SEEDS = (1, 2)
Table = dict[str, dict[str, Score]]
"""Scenario, rule, score."""


def measure(untouched: Series, injected: Series, limit: float) -> dict[str, Score]:
    """Score all rules on the two variants of one scenario and seed, and the ceiling at that `noise_limit`."""
    clear = ceiling(injected, limit)
    bars = injected.latency_ms / bar_ms(injected.level_ms)
    answers = {name: (rule(injected), rule(untouched)) for name, rule in RULES.items()}
    answers[CEILING] = (Answer(clear), Answer(ceiling(untouched, limit)))
    scores = {}
    for name, (of_injected, of_untouched) in answers.items():
        scores[name] = score(injected, of_injected, clear=clear, bars=bars)
        scores[name].add(score(untouched, of_untouched))
    return scores


def merge(table: Table, name: str, scores: dict[str, Score]) -> None:
    """Add the scores to the row of that name."""
    row = table.setdefault(name, {})
    for rule, one in scores.items():
        row.setdefault(rule, Score()).add(one)


def differences(entries: dict[str, dict[str, Any]]) -> list[str]:
    """Say which of the generated series are not those whose labels and digests are committed."""
    known = labels.read()
    return [
        f"{scenario}, seed {seed}: {key} is not what {labels.PATH.name} says"
        for scenario, seeds in entries.items()
        for seed, entry in seeds.items()
        for key in sorted(entry.keys() | known.get(scenario, {}).get(seed, {}).keys())
        if entry.get(key) != known.get(scenario, {}).get(seed, {}).get(key)
    ]


def print_table(table: Table) -> None:
    """One line for each scenario and rule."""
    print(
        f"{'scenario':<13} {'rule':<22} {'recall':>7} {'of clear':>9} {'spikes':>7} {'clear':>6}"
        f" {'false alarms':>13} {'in healthy':>11} {'an hour':>9}  95 % interval"
    )
    for scenario, row in table.items():
        for number, (rule, one) in enumerate(row.items()):
            mean, low, high = one.alarms_an_hour
            print(
                f"{'' if number else scenario:<13} {rule:<22} {one.recall:>7.3f} {one.clear_recall:>9.3f}"
                f" {one.spikes:>7} {one.clear:>6} {one.false_alarms:>13} {one.in_healthy:>11} {mean:>9.2f}"
                f"  {low:.2f} to {high:.2f}"
            )


def print_patterns(row: dict[str, Score]) -> None:
    """Recall by the pattern and the size of the spikes, of each rule."""
    print("\nrecall by pattern and by size (a bar is three times the true median, and at least 10 ms more than it)")
    names = list(next(iter(row.values())).patterns)
    print(f"{'':<22} " + " ".join(f"{name:>15}" for name in names))
    for rule, one in row.items():
        shares = [one.patterns[name] for name in names]
        print(
            f"{rule:<22} " + " ".join(f"{found / whole if whole else float('nan'):>15.3f}" for found, whole in shares)
        )


def print_events(row: dict[str, Score]) -> None:
    """What became of rising tails and level shifts, by each rule."""
    print("\nrising tails and level shifts, told as such")
    for rule, one in row.items():
        shares = ", ".join(f"{found} of {whole} {kind}s" for kind, (found, whole) in sorted(one.events.items()))
        print(f"{rule:<22} {shares if one.tells else 'not told from spikes'}")


def figures(table: Table) -> dict[str, Any]:
    """The table as it goes into a file."""
    keys = (
        "spikes",
        "found",
        "clear",
        "clear_found",
        "false_alarms",
        "in_healthy",
        "requests",
        "patterns",
        "events",
        "tells",
    )
    return {
        scenario: {
            rule: {key: getattr(one, key) for key in keys} | {"alarms_an_hour": one.alarms_an_hour}
            for rule, one in row.items()
        }
        for scenario, row in table.items()
    }


def run_recorded(paths: list[Path]) -> Table:
    """Score the rules on recorded series; nobody knows their true level, so there is no ceiling."""
    table: Table = {}
    for path in paths:
        series = recorded.read(path)
        merge(table, series.name, {name: score(series, rule(series)) for name, rule in RULES.items()})
    return table


def main() -> int:
    """Print the table; 1 only where the series are not the committed ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", choices=[one.name for one in SCENARIOS], help="may be repeated")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="%(default)s are the committed ones")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--csv", type=Path, nargs="+", help="recorded series of seconds,latency_ms[,label] instead")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--check", action="store_true", help="generate alone, and compare with the committed labels")
    only.add_argument("--write", action="store_true", help="generate alone, and commit to what comes out")
    given = parser.parse_args()
    if given.write and (given.scenario or given.seeds != list(SEEDS)):
        parser.error("--write commits to all scenarios and seeds; leave out --scenario and --seeds")
    began = time.monotonic()
    try:
        table: Table = run_recorded(given.csv) if given.csv else {}
    except (OSError, ValueError) as error:
        parser.error(str(error))
    entries: dict[str, dict[str, Any]] = {}
    together: Table = {}
    for scenario in () if given.csv else SCENARIOS:
        if given.scenario and scenario.name not in given.scenario:
            continue
        limit = 0.0 if given.check or given.write else noise_limit(scenario)
        for seed in given.seeds:
            untouched, injected = pair(scenario, seed)
            if given.check or given.write:
                entries.setdefault(scenario.name, {})[str(seed)] = labels.entry(untouched, injected)
                continue
            scores = measure(untouched, injected, limit)
            merge(table, scenario.name, scores)
            merge(together, "all", scores)
    if given.write:
        labels.write(entries)
    elif given.check:
        wrong = differences(entries)
        print("\n".join(wrong) or f"{sum(map(len, entries.values()))} pairs of series are the committed ones")
        return 1 if wrong else 0
    else:
        print_table(table | together)
        if together:
            print_patterns(together["all"])
            print_events(together["all"])
        print(f"{time.monotonic() - began:.0f} s")
        if given.json:
            given.json.write_text(json.dumps(figures(table | together), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
