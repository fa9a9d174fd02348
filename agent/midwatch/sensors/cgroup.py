"""What the control groups of this process allow it: the CPU quota, and for how long they throttled it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from midwatch.shortage import no_descriptor_left


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
        self._folder: Path | None = None
        self._v2 = True
        best = 0.0
        for folder, v2 in _folders(memberships, root):
            quota = _quota(folder, v2=v2)
            if self._folder is None or (quota and (not best or quota < best)):
                self._folder, self._v2, best = folder, v2, quota

    def read(self) -> CgroupCpu:
        """Return the quota and the throttled time now. Raises `OSError` where no descriptor is left to ask with."""
        if self._folder is None:
            return CgroupCpu()
        stat = dict(line.split() for line in _text(self._folder / "cpu.stat").splitlines() if line.count(" ") == 1)
        throttled_ns = int(stat.get("throttled_usec", 0)) * 1000 if self._v2 else int(stat.get("throttled_time", 0))
        return CgroupCpu(_quota(self._folder, v2=self._v2), throttled_ns)


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


def _quota(folder: Path, *, v2: bool) -> float:
    if v2:
        limit, _, period = _text(folder / "cpu.max").strip().partition(" ")
    else:
        limit, period = (_text(folder / f"cpu.cfs_{which}_us").strip() for which in ("quota", "period"))
    if not (limit.isdigit() and period.isdigit() and int(period)):
        return 0.0
    return int(limit) / int(period)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        # Nothing read is not nothing throttled: the next difference would be all that ever was.
        if no_descriptor_left(error):
            raise
        return ""
