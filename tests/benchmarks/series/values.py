"""A series of requests with what was injected into it, and numbers drawn alike by every version of numpy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SPIKE, TAIL, SHIFT = "spike", "tail", "shift"
SINGLE, RECURRING, CLUSTER = "single", "recurring", "cluster"


@dataclass(frozen=True, slots=True)
class Label:
    """One injected event: requests ``first`` to ``last``, both included.

    A `SPIKE` is one request, with its ``pattern``. A `TAIL` is the stretch in which the tail rises. A `SHIFT` is the
    stretch on the higher level.
    """

    kind: str
    first: int
    last: int
    pattern: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Requests in the order of their arrival.

    ``at_us`` and ``latency_us`` are whole microseconds, since a float's last bit depends on the processor.
    ``level_ms`` is the true median at that moment (of that shape), empty where nobody knows it; ``shapes`` is the
    number of each request's shape, empty where there are none.
    """

    name: str
    at_us: Ints
    latency_us: Ints
    level_ms: Floats
    shapes: Ints
    labels: tuple[Label, ...] = ()

    def __len__(self) -> int:
        return len(self.latency_us)

    @property
    def latency_ms(self) -> Floats:
        """The latencies in milliseconds."""
        return self.latency_us / 1e3

    def spikes(self, pattern: str = "") -> Ints:
        """The requests labelled as spikes, of all patterns or of one, rising."""
        chosen = [one.first for one in self.labels if one.kind == SPIKE and pattern in {"", one.pattern}]
        return np.array(sorted(chosen), dtype=np.int64)

    def digest(self) -> str:
        """SHA-256 of arrivals, latencies and shapes as little-endian 64-bit integers."""
        whole = hashlib.sha256()
        for column in (self.at_us, self.latency_us, self.shapes):
            whole.update(column.astype("<i8").tobytes())
        return whole.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a rule says of a series: for each request, whether it is flagged.

    ``told`` is the kind of each tail and shift, with the request at which the rule told it; None where the rule tells
    none of them from spikes.
    """

    flags: Bools
    told: tuple[tuple[str, int], ...] | None = None


class Draws:
    """Random numbers from the raw 64-bit words of PCG64, which numpy keeps for ever.

    The distributions of `numpy.random.Generator` may change with numpy's version; these are worked out here. Each
    ``stream`` of a name and seed is independent of the others, so that what is injected does not move the noise.
    """

    def __init__(self, name: str, seed: int, stream: str) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, *f"{name}/{stream}".encode()]))

    def uniform(self, count: int) -> Floats:
        """``count`` numbers in (0, 1)."""
        words: npt.NDArray[np.uint64] = self._bits.random_raw(count)
        numbers: Floats = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        return numbers

    def between(self, low: float, high: float) -> float:
        """One number between the two."""
        return low + (high - low) * float(self.uniform(1)[0])

    def whole(self, low: int, high: int) -> int:
        """One whole number from ``low`` to ``high``, ``high`` excluded."""
        return int(self.between(low, high))

    def exponential(self, count: int) -> Floats:
        """``count`` numbers of mean 1."""
        return -np.log(self.uniform(count))

    def normal(self, count: int) -> Floats:
        """``count`` standard normal numbers, by Box and Muller."""
        lengths: Floats = np.sqrt(2.0 * self.exponential(count))
        return lengths * np.cos(2.0 * np.pi * self.uniform(count))
