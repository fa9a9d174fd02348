"""What reading a trace may take in memory, and what each row of it costs."""

from __future__ import annotations

import sys
from typing import Any

MEMORY_BYTES = 2 << 30
"""What reading and summarising one trace may take, unless something else is asked for."""
LEAST_BYTES = 128 << 20
"""Below this there would be no room beside the interpreter and its libraries."""
BASE_BYTES = 80 << 20
"""The interpreter, the libraries, and the pieces of text under way."""
ROW_BYTES = 220
"""One event: 72 bytes of columns, and twice as much again while they are sorted and joined."""
CALL_BYTES, WORK_BYTES = 650, 1300
"""One call of the runtime, and one piece of device work: beside its row each stands in a plan or a wait, as objects."""
ENTRY_BYTES = 200
"""What a name, a thread or a shape takes beside its text."""


class Interner(dict[Any, int]):
    """Numbers things in the order in which they come, and adds up what they take."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        self.bytes += ENTRY_BYTES + (sum(map(sys.getsizeof, key)) if type(key) is tuple else sys.getsizeof(key))
        return number
