"""What a comparison of two captures says. ``a`` is the one before, ``b`` the one after; times are per request."""

from __future__ import annotations

from dataclasses import dataclass

from midwatch.model.finding import Finding
from midwatch.model.site import Site


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure of the requests of one side: its median, the middle half of them, and how many there are.

    ``low`` and ``high`` are equal to the median where only the whole window tells the figure; ``count`` is 0 then.
    """

    median: float
    low: float
    high: float
    count: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table: the same figure of both sides.

    ``status`` is ``more`` or ``less`` (of B, beyond the spread of the requests), ``same`` (no difference beyond it) or
    ``unknown`` (not recorded on one side at least).
    """

    key: str
    label: str
    unit: str
    """``ms``, ``us``, ``count`` or ``bytes``."""
    a: Sample | None
    b: Sample | None
    status: str

    @property
    def delta(self) -> float:
        """B less A, in ``unit``; 0 where one side is not known."""
        return self.b.median - self.a.median if self.a is not None and self.b is not None else 0.0


@dataclass(frozen=True, slots=True)
class Part:
    """One cause or piece of work on one side, per request that has it."""

    ms: float
    count: float
    """How often a request that has it has it."""
    share: float
    """Of the requests that have it, 0 to 1."""
    gain_ms: float = 0.0
    """What a request would gain without it, by the replay; equal to ``ms`` for what has no replay."""
    site: Site | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that both sides can have: a wait at one place, a family of kernels, copies of one direction.

    ``kind`` is one of ``wait gap gc lock compile alloc launch time kernels copies``. ``status`` is ``gone``, ``new``,
    ``more``, ``less`` or ``same``, of B against A.
    """

    kind: str
    label: str
    a: Part | None
    b: Part | None
    status: str
    on_device: bool = False

    @property
    def delta_ms(self) -> float:
        """B less A, per request that has it."""
        return (self.b.ms if self.b else 0.0) - (self.a.ms if self.a else 0.0)

    @property
    def effect_ms(self) -> float:
        """What it does to the median request, by the replay of each side: B less A."""
        return _weight(self.b) - _weight(self.a)

    @property
    def site(self) -> Site | None:
        """The place, as the side knows it that knows it best."""
        sites = [part.site for part in (self.b, self.a) if part is not None and part.site is not None]
        return max(sites, key=lambda site: site.exact, default=None)


@dataclass(frozen=True, slots=True)
class Named:
    """A finding that both sides can have: ``gone``, ``new`` or ``kept``; ``note`` where B has it as a note only."""

    status: str
    a: Finding | None
    b: Finding | None


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the difference that one change accounts for."""

    ms: float
    change: Change


@dataclass(frozen=True, slots=True)
class Remark:
    """A stable code and a sentence."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Comparability:
    """Whether the two may be held against each other: ``comparable``, ``limited`` or ``not_comparable``."""

    verdict: str
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class SideFacts:
    """What stands for one side in a comparison."""

    label: str
    route: str
    requests: int
    """Whole requests of the route that are compared."""
    basis: str
    factor: float
    verdict: str
    torch: str = ""
    cuda: str = ""
    devices: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    service: str = ""
    service_version: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """The whole comparison."""

    a: SideFacts
    b: SideFacts
    noun: str
    comparability: Comparability
    changed: tuple[Remark, ...]
    """What was changed between the two, as far as the captures show it; more than one is a warning."""
    wall: Figure
    slowest: Figure
    figures: tuple[Figure, ...]
    changes: tuple[Change, ...]
    shares: tuple[Share, ...]
    rest_ms: float
    """What of the difference no change accounts for; signed as the difference is."""
    findings: tuple[Named, ...]
    answer: tuple[str, ...] = ()


def _weight(part: Part | None) -> float:
    """What a part costs the median request: nothing where most requests do not have it."""
    return part.gain_ms if part is not None and part.share >= 0.5 else 0.0
