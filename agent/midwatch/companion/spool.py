"""The disk spool: what waits to be sent, bounded, and still there after a kill.

Each batch is one file, written beside its name and renamed. There is no fsync: the spool is to outlive processes, and
the service's disk is not ours to stall. A folder belongs to one agent and is locked by its companion; one whose lock is
free belonged to a dead one, and whoever finds it sends what is in it.

Over the bound the oldest samples go first, then raw traces, then spikes and captures; each is counted by reason.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from midwatch.companion.folders import Folder, claim_orphans, claim_own

BLOCK_BYTES = 4096
MEMORY_BYTES = 16 << 20
"""Most that is held in memory while the disk takes nothing."""


class Kind(str, Enum):
    """What a batch holds, in the order in which they are given up."""

    SAMPLES = "samples"
    TRACE = "trace"
    EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch that waits. ``payload`` is None where it lies on disk."""

    created_ns: int
    kind: Kind
    records: int
    batch_id: str
    size: int = 0
    folder: Folder | None = None
    payload: bytes | None = None

    @property
    def name(self) -> str:
        """The name of its file: sorts by age, and says all that must be known without reading it."""
        return f"{self.created_ns:020d}.{self.kind.value}.{self.records}.{self.batch_id}.pb"

    @property
    def cost(self) -> int:
        """What it takes of the bound: whole blocks, as on a disk."""
        return -(-self.size // BLOCK_BYTES) * BLOCK_BYTES


def parse_name(name: str, size: int, folder: Folder) -> Entry | None:
    """Return the entry that a file name stands for, or None for a file that is no batch."""
    parts = name.split(".")
    if len(parts) != 5 or parts[4] != "pb":
        return None
    try:
        return Entry(int(parts[0]), Kind(parts[1]), int(parts[2]), parts[3], size, folder)
    except ValueError:
        return None


class Spool:
    """Batches on their way, oldest first. Methods may be called from any thread."""

    def __init__(self, root: Path | None, agent_id: str, limit_bytes: int, drop: Callable[[str, int], None]) -> None:
        """``root`` holds the folders of all agents of this user; None, or one that cannot be used: memory alone."""
        self.changed = threading.Condition()
        """Notified when a batch comes in; also the lock of everything here."""
        self.problem = ""
        """Why nothing is on disk, one sentence; "" where all is well."""
        self._root = root
        self._agent_id = agent_id
        self._limit = limit_bytes
        self._drop = drop
        self._queues: dict[Kind, deque[Entry]] = {kind: deque() for kind in Kind}
        self._open: dict[str, Entry] = {}
        self._folders: list[Folder] = []
        self._own: Folder | None = None
        self._bytes = 0
        self._memory_bytes = 0
        if root is not None:
            self._open_root(root)

    @property
    def waiting(self) -> int:
        """How many batches are neither acknowledged nor given up."""
        with self.changed:
            return sum(map(len, self._queues.values())) + len(self._open)

    @property
    def unsaved(self) -> int:
        """How many records are in memory alone, because the disk takes nothing."""
        with self.changed:
            if not self._memory_bytes:
                return 0
            waiting = [entry for queue in self._queues.values() for entry in queue] + list(self._open.values())
            return sum(entry.records for entry in waiting if entry.folder is None)

    def add(self, entry: Entry, payload: bytes) -> None:
        """Keep one batch."""
        with self.changed:
            self._queues[entry.kind].append(self._write(entry, payload))
            self._shrink()
            self.changed.notify_all()

    def take(self) -> Entry | None:
        """Hand out the oldest batch for sending; it stays here until `done`. None where all are handed out."""
        with self.changed:
            queue = min((q for q in self._queues.values() if q), key=lambda q: q[0].created_ns, default=None)
            if queue is None:
                return None
            entry = queue.popleft()
            self._open[entry.batch_id] = entry
            return entry

    def out(self) -> list[Entry]:
        """Return the batches that are handed out."""
        with self.changed:
            return list(self._open.values())

    def load(self, entry: Entry) -> bytes | None:
        """Return the batch itself; None where its file is gone."""
        if entry.payload is not None:
            return entry.payload
        assert entry.folder is not None
        try:
            return (entry.folder.path / entry.name).read_bytes()
        except OSError:
            return None

    def done(self, batch_id: str) -> Entry | None:
        """Forget a batch that is out and was acknowledged or is given up. Return it, or None."""
        with self.changed:
            entry = self._open.pop(batch_id, None)
            if entry is not None:
                self._remove(entry)
            return entry

    def corrupt(self, batch_id: str) -> None:
        """Put a batch aside that cannot be read, and count it."""
        with self.changed:
            entry = self._open.get(batch_id)
            if entry is not None and entry.folder is not None:
                entry.folder.put_aside(entry.name)
        if self.done(batch_id) is not None:
            self._drop("spool_corrupt", 1)

    def give_back(self, *, last: str = "") -> None:
        """Queue again whatever is out, in its old order; the batch ``last`` goes behind all of its kind."""
        with self.changed:
            for entry in sorted(self._open.values(), key=lambda entry: entry.created_ns, reverse=True):
                if entry.batch_id != last:
                    self._queues[entry.kind].appendleft(entry)
            if last in self._open:
                self._queues[self._open[last].kind].append(self._open[last])
            self._open.clear()
            self._shrink()

    def adopt(self) -> int:
        """Take over the folders of dead agents. Return how many batches were in them."""
        if self._root is None or self._own is None:
            return 0
        found = 0
        for folder in claim_orphans(self._root, self._agent_id):
            with self.changed:
                found += self._take_in(folder)
                self._shrink()
                self.changed.notify_all()
        return found

    def close(self) -> None:
        """Give the folders back; those that are empty go."""
        with self.changed:
            for folder in self._folders:
                folder.release()
            self._folders, self._own = [], None

    def _open_root(self, root: Path) -> None:
        try:
            self._own = claim_own(root, self._agent_id)
        except OSError as error:
            self.problem = f"the spool {root} cannot be used ({error.strerror}); what waits is held in memory alone"
            return
        self._take_in(self._own)
        self._shrink()

    def _take_in(self, folder: Folder) -> int:
        """Queue what lies in ``folder``; the caller holds the lock, or is alone."""
        entries = []
        for name, size in folder.files():
            entry = parse_name(name, size, folder)
            if entry is None:
                folder.put_aside(name)
                self._drop("spool_corrupt", 1)
            else:
                entries.append(entry)
        self._folders.append(folder)
        if not entries and folder is not self._own:
            self._leave(folder)
        for kind, queue in self._queues.items():
            mine = [entry for entry in entries if entry.kind is kind]
            if mine:
                self._queues[kind] = deque(sorted([*queue, *mine], key=lambda entry: entry.created_ns))
        self._bytes += sum(entry.cost for entry in entries)
        return len(entries)

    def _write(self, entry: Entry, payload: bytes) -> Entry:
        folder = self._own
        if folder is not None:
            try:
                folder.write(entry.name, payload)
                self.problem = ""
            except OSError as error:
                self.problem = f"the spool cannot be written ({error.strerror}); what waits is held in memory alone"
                folder = None
        kept = replace(entry, size=len(payload), folder=folder, payload=None if folder is not None else payload)
        self._bytes += kept.cost
        self._memory_bytes += kept.cost if folder is None else 0
        return kept

    def _remove(self, entry: Entry) -> None:
        self._bytes -= entry.cost
        if entry.folder is None:
            self._memory_bytes -= entry.cost
            return
        entry.folder.delete(entry.name)
        if entry.folder is not self._own and entry.folder in self._folders and not self._holds(entry.folder):
            self._leave(entry.folder)

    def _holds(self, folder: Folder) -> bool:
        queued = any(entry.folder is folder for queue in self._queues.values() for entry in queue)
        return queued or any(entry.folder is folder for entry in self._open.values())

    def _leave(self, folder: Folder) -> None:
        self._folders.remove(folder)
        folder.release()

    def _shrink(self) -> None:
        """Give up the oldest of the least valuable kind until both bounds hold."""
        for kind in Kind:
            queue = self._queues[kind]
            while queue and self._bytes > self._limit:
                self._give_up(queue.popleft(), "full")
            if self._memory_bytes > MEMORY_BYTES:
                for entry in [entry for entry in queue if entry.folder is None]:
                    if self._memory_bytes <= MEMORY_BYTES:
                        break
                    queue.remove(entry)
                    self._give_up(entry, "unwritable")

    def _give_up(self, entry: Entry, why: str) -> None:
        self._remove(entry)
        self._drop(f"spool_{why}_{entry.kind.value}", entry.records)
