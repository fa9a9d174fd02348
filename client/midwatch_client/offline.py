"""Trace files to reports, without a collector: one file, several, or a folder, the ranks of a job among them."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from midwatch_client.errors import Failure

if TYPE_CHECKING:
    from midwatch.model.ranks import RankFacts
    from midwatch_server.diagnosis import Report
    from midwatch_server.diagnosis.ranks import World

LARGE_BYTES = 4_000_000
"""From this size on (as it lies on disk) a person would wonder whether anything happens."""
ENDINGS = (".json", ".json.gz")
MEMORY_BYTES = 2 << 30
"""What reading one trace may take, unless something else is asked for."""
_THREADS = "OPENBLAS_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be read, and why. ``asked`` is False for one that only lay in a folder."""

    path: Path
    reason: str
    asked: bool


@dataclass(frozen=True, slots=True)
class Analysed:
    """What became of all files. ``several`` is True unless one single file was asked for."""

    reports: tuple[Report, ...]
    several: bool
    world: World | None = None
    unread: tuple[Unread, ...] = ()


def analyse(path: Path, untraced_p50_ms: float | None = None) -> Report:
    """Read and judge one trace. Raises `Failure` with one sentence where it cannot be read."""
    return _read(path, untraced_p50_ms, MEMORY_BYTES)[0]


def analyse_all(
    paths: Sequence[Path], untraced_p50_ms: float | None = None, memory_bytes: int = MEMORY_BYTES
) -> Analysed:
    """Read and judge traces, each within ``memory_bytes``; folders are taken for the traces in them.

    A file that cannot be read does not keep the others from it. Raises `Failure` where none can be read.
    """
    several = len(paths) > 1 or paths[0].is_dir()
    reports: list[Report] = []
    ranks: list[tuple[str, RankFacts]] = []
    unread: list[Unread] = []
    listed = list(_listed(paths))
    for number, (path, asked) in enumerate(listed, 1):
        try:
            report, rank = _read(
                path, untraced_p50_ms, memory_bytes, f"{number} of {len(listed)}: " if len(listed) > 1 else ""
            )
        except Failure as failure:
            if not several:
                raise
            unread.append(Unread(path, str(failure), asked))
            continue
        reports.append(report)
        if rank is not None:
            ranks.append((path.name, rank))
    if not reports:
        raise Failure(f"none of the {len(unread)} files could be read; the first: {unread[0].reason}")
    return Analysed(tuple(reports), several, _world(ranks), tuple(unread))


def _listed(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    for path in paths:
        if not path.is_dir():
            yield path, True
            continue
        inside = sorted(one for one in path.iterdir() if one.name.endswith(ENDINGS) and one.is_file())
        if not inside:
            raise Failure(f"the folder {path} holds no trace; give one with .json or .json.gz files in it")
        yield from ((one, False) for one in inside)


def _world(ranks: list[tuple[str, RankFacts]]) -> World | None:
    from midwatch_server.diagnosis.ranks import Member, compare_ranks

    return compare_ranks([Member(name, facts) for name, facts in ranks])


def _read(
    path: Path, untraced_p50_ms: float | None, memory_bytes: int, which: str = ""
) -> tuple[Report, RankFacts | None]:
    _load_numpy()
    from midwatch.trace import TraceError
    from midwatch.trace.ranks import summarise_rank
    from midwatch_server.diagnosis import Evidence, Report, diagnose

    if not path.is_file():
        said = f"{path} is no regular file" if path.exists() else f"there is no file {path}"
        raise Failure(f"{said}; give the path of a trace, .json or .json.gz")
    try:
        with reading(path, which) as progress:
            summary, rank = summarise_rank(
                path, untraced_p50_ms=untraced_p50_ms, memory_bytes=memory_bytes, progress=progress
            )
    except TraceError as error:
        raise Failure(str(error)) from None
    diagnosis = diagnose(Evidence(summary=summary, workload=summary.workload))
    return Report(diagnosis, summary=summary, file=str(path)), rank


def _load_numpy() -> None:
    """Load numpy without its threads for matrices, of which a trace has none: at first they spin, and take the CPU.

    The environment is left as it was, for the processes that this one starts.
    """
    if "numpy" in sys.modules or _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        importlib.import_module("numpy")
    finally:
        del os.environ[_THREADS]


@contextlib.contextmanager
def reading(path: Path, which: str = "") -> Iterator[Callable[[int, int], None] | None]:
    """Show on a terminal how far the reading of a large file is; say nothing anywhere else."""
    if not sys.stderr.isatty() or path.stat().st_size < LARGE_BYTES:
        yield None
        return
    from midwatch_server.diagnosis import words

    from midwatch_client.console import PlainConsole, line

    name = f"{which}{path.name}"

    def tell(done: int, total: int) -> None:
        read = done >= total
        share = f"{100 * done // max(total, 1)} % of {words.size(total)}"
        status.update(line((f"summing up {name}" if read else f"reading {name}: {share}", "")))

    with PlainConsole(sys.stderr).status(line((f"reading {name}", ""))) as status:
        yield tell
