"""``data_stall``: a step waited for its data loader.

Definition: the time between the start and the end of ``DataLoader.__next__`` on the step's threads, as PyTorch's own
annotation (``enumerate(DataLoader)#…__next__``), operator or Python frame tells it; what waits below 2 % of a step is
the price of a batch that is ready. The cost is the whole wait. The gain is the replay without it: a device that still
works off the step before loses nothing meanwhile.

Where long waits (three times the median) come at even distances, the distance is named: batches are handed out in the
order of the workers, so one slow worker, or all of them filling up at once, shows every ``num_workers`` steps.

Source: PyTorch's documentation of `torch.utils.data` (order of workers, ``prefetch_factor``, ``persistent_workers``)
and its performance tuning guide; the reports of training that freezes every ``num_workers`` iterations.
"""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.finding import Advice, Finding, Kind
from midwatch.model.trace import LoaderFacts

from midwatch_server.diagnosis.build import window_finding
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.phrases import look_at
from midwatch_server.diagnosis.words import ms, percent, place, plural

MEASURE = "The share of the step spent in DataLoader.__next__, and the median step"

WORKERS = Advice(
    "Load in the background: num_workers of 2 or more, and persistent_workers=True so that they outlive an epoch",
    "With num_workers=0 the step itself reads and transforms every sample; workers do so while the device computes",
    MEASURE,
)
AHEAD = Advice(
    "Pin the batches (pin_memory=True), copy them with non_blocking=True, and raise prefetch_factor",
    "Batches then lie ready, and their copies run beside the step before",
    MEASURE,
)
CHEAPER = Advice(
    "Make a sample cheaper: decode and resize ahead of time, cache it, or transform whole batches on the device",
    "More workers help only as far as there are cores for them",
    "The time of one dataset[i], measured alone",
)
ONE_WORKER = Advice(
    "Look at what the worker of the slow steps reads: a slow shard, a slow disk, one large sample",
    "Batches are handed out in the order of the workers, so one slow worker holds up all of them",
    "The time of each worker's batches, by worker id",
)


class DataStall:
    """Steps that wait for their batch."""

    kind = Kind.DATA_STALL

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield at most one finding."""
        facts = evidence.summary.loader if evidence.summary is not None else None
        if facts is None or not facts.requests_affected:
            return
        device = evidence.summary is not None and evidence.summary.device.present and not evidence.device_lane_missing
        every = f", every {facts.period} {evidence.noun}s" if facts.period else ""
        at = f", most of it in {place(facts.site)}" if facts.site else ""
        often = f"{evidence.per(facts.requests_affected)}{every}"
        whole = evidence.summary.window.requests if evidence.summary else 1
        cost = min(evidence.untraced(facts.per_request_ms), evidence.untraced(facts.wall_ms))
        yield window_finding(
            Kind.DATA_STALL,
            f"The {evidence.noun} waits {ms(cost)} for its data loader {often}{at}",
            site=facts.site,
            cost_ms=cost,
            gain_ms=min(facts.recoverable_ms, cost),
            wall_ms=evidence.untraced(facts.wall_ms),
            occurrences=facts.count / max(whole, 1),
            affected=facts.requests_affected,
            confidence=0.9,
            evidence=tuple(_seen(evidence, facts, device=device)),
            advice=(ONE_WORKER, AHEAD, CHEAPER) if facts.period else (WORKERS, AHEAD, CHEAPER),
        )


def _seen(evidence: Evidence, facts: LoaderFacts, *, device: bool) -> Iterable[str]:
    yield (
        f"{plural(facts.count, 'call')} of DataLoader.__next__, {ms(facts.total_ms)} traced: {percent(facts.share)} of "
        f"all {evidence.noun}s{look_at(evidence, facts.starts_ms)}"
    )
    if device:
        yield f"The device idles for {ms(facts.idle_ms)} of {ms(facts.per_request_ms)}; the rest it works on meanwhile"
    if facts.period:
        yield f"The long waits come every {facts.period} {evidence.noun}s: as many as there are workers?"
