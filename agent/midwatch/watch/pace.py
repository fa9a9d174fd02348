"""How often to look: densely where a request has just become overdue, seldom where it has been so for long, and never
for more than a small share of a core.
"""

from __future__ import annotations

from collections import deque

_SLOWEST_NS = 250_000_000
_AGE_DIVISOR = 50
_COST_MULTIPLE = 20
"""While looking, a twentieth of one core at most."""
_CALM_SHARE, _ALERT_SHARE = 0.003, 0.008
"""While nothing is overdue, so much of one core, as the cheapest turns go: where a wake is dear, deadlines are met
milliseconds late. Where one was overdue within the last minute, more: a spike seldom comes alone, and the service is in
trouble.
"""
_ALERT_NS = 60_000_000_000
_CALMEST_NS = 50_000_000
_COSTS, _LOOKS = 16, 4
"""Of so many accounts of calm turns, and of looks, the cheapest counts: what a noisy neighbour adds is no cost of ours,
nor is a collection of the host's whole heap that happens to run on this thread.
"""
_MOST_NS = 20_000_000
"""Charged for one look at most: such a collection would leave nobody watching for a second."""
_REFILL = 0.008
"""In the long run, 0.8 % of one core."""
_POOL_NS = 100_000_000
_POOR_NS, _POOREST_NS = 50_000_000, 500_000_000
"""How often to look when the pool is empty: as the refill allows, within these."""


class Pace:
    """The watchdog's budget. CPU times come from `Clock.cpu_ns`, others from `Clock.perf_ns`."""

    def __init__(self, tick_ns: int) -> None:
        self._tick_ns = tick_ns
        self._pool_ns = float(_POOL_NS)
        self._look_costs_ns: deque[float] = deque(maxlen=_LOOKS)
        """What a turn costs with its wake where something is looked at."""
        self._calm_costs_ns: deque[float] = deque(maxlen=_COSTS)
        """The same where nothing is overdue, of the last accounts."""
        self._seen_cpu_ns = -1
        self._seen_ns = 0
        self._alert_until_ns = 0
        self.calm_ns = tick_ns // 2
        """The shortest time to the next turn while nothing is overdue."""

    def account(self, now_ns: int, cpu_ns: int, *, calm_turns: int = 0) -> None:
        """Take note of the CPU time that the thread has used up to now: for so many calm turns, or (0) for one look."""
        if self._seen_cpu_ns >= 0:
            used_ns = cpu_ns - self._seen_cpu_ns
            refill_ns = _REFILL * (now_ns - self._seen_ns)
            self._pool_ns = min(_POOL_NS, self._pool_ns + refill_ns) - min(used_ns, _MOST_NS)
            if calm_turns:
                if used_ns:  # where the clock is coarse, most turns seem to take nothing
                    self._calm_costs_ns.append(used_ns / calm_turns)
            else:
                self._look_costs_ns.append(used_ns)
        self._seen_cpu_ns = cpu_ns
        self._seen_ns = now_ns
        share = _ALERT_SHARE if now_ns < self._alert_until_ns else _CALM_SHARE
        cost_ns = min(self._calm_costs_ns, default=0.0)
        self.calm_ns = max(min(int(cost_ns / share), _CALMEST_NS), self.floor_ns())

    def alert(self, now_ns: int) -> None:
        """Be alert for a minute: a request is overdue."""
        self._alert_until_ns = now_ns + _ALERT_NS

    def looking_ns(self, overdue_ns: int) -> int:
        """Return the time to the next look, where the latest request to become overdue did so ``overdue_ns`` ago."""
        dense_ns = max(self._tick_ns, overdue_ns // _AGE_DIVISOR, int(self._look_cost_ns() * _COST_MULTIPLE))
        return max(min(dense_ns, _SLOWEST_NS), self.floor_ns())

    def floor_ns(self) -> int:
        """Return the shortest time to the next turn."""
        if self._pool_ns >= 0:
            return self._tick_ns // 2
        return min(max(_POOR_NS, int(self._look_cost_ns() / _REFILL)), _POOREST_NS)

    def _look_cost_ns(self) -> float:
        return min(self._look_costs_ns, default=0.0)
