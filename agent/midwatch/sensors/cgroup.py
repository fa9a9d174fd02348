"""What the control groups of this process allow it: the CPU quota, and for how long they throttled it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from midwatch.sensors.files import read_small
from midwatch.shortage import no_descriptor_left

_QUOTA_EVERY = 10
"""Readings until the quota is asked for again: it changes with the container's size, if ever."""


class CgroupCpu(NamedTuple):
    """``quota`` in cores, 0.0 where unlimited; ``throttled_ns`` since the group was made."""

    quota: float = 0.0
    throttled_ns: int = 0


class Cgroup:
    """Finds the group with the tightest quota once, then reads it. Version 2, else version 1.

    Args:
        memberships: the text of ``/proc/self/cgroup``.
        root: where control groups are mounted.
    """

    def __init__(self, memberships: str, root: Path = Path("/sys/fs/cgroup")) -> None:
        self._folder = ""
        self._v2 = True
        self._quota = 0.0
        self._reads = 0
        for path, v2 in _folders(memberships, root):
            folder = str(path)
            quota = _quota(folder, v2=v2)
            if not self._folder or (quota and (not self._quota or quota < self._quota)):
                self._folder, self._v2, self._quota = folder, v2, quota

    def read(self) -> CgroupCpu:
        """Return the throttled time now, and the quota. Raises `OSError` where no descriptor is left to ask with."""
        if not self._folder:
            return CgroupCpu()
        self._reads += 1
        if self._reads % _QUOTA_EVERY == 0:
            self._quota = _quota(self._folder, v2=self._v2)
        stat = _text(f"{self._folder}/cpu.stat")
        if not stat:
            return CgroupCpu()
        throttled = stat.partition("throttled_usec " if self._v2 else "throttled_time ")[2].split(maxsplit=1)
        return CgroupCpu(self._quota, int(throttled[0]) * (1000 if self._v2 else 1) if throttled else 0)


def _folders(memberships: str, root: Path) -> list[tuple[Path, bool]]:
    """Return the folders of the process's CPU group and of all groups around it that can be seen, innermost first.

    In a container the path is often that of the host, which is not there: then only the mounted root is left.
    """
    found: list[tuple[Path, bool]] = []
    for line in memberships.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        v2 = number == "0" and not controllers
        if not v2 and "cpu" not in controllers.split(","):
            continue
        mounts = [root, root / "unified"] if v2 else [root / controllers, root / "cpu"]
        for mount in mounts:
            inner = mount / path.lstrip("/")
            around = [inner, *(parent for parent in inner.parents if mount in (parent, *parent.parents))]
            found += [(folder, v2) for folder in around if (folder / "cpu.stat").is_file()]
    return found


def _quota(folder: str, *, v2: bool) -> float:
    if v2:
        limit, _, period = _text(f"{folder}/cpu.max").strip().partition(" ")
    else:
        limit, period = (_text(f"{folder}/cpu.cfs_{which}_us").strip() for which in ("quota", "period"))
    if not (limit.isdigit() and period.isdigit() and int(period)):
        return 0.0
    return int(limit) / int(period)


def _text(path: str) -> str:
    try:
        return read_small(path)
    except OSError as error:
        # Nothing read is not nothing throttled: the next difference would be all that ever was.
        if no_descriptor_left(error):
            raise
        return ""
