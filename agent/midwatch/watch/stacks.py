"""Stacks of frames, cheaply.

Looking and naming are apart. *Looking* (`Stacks.walk`) happens while a request waits: it only notes which instruction
of which code object each frame is at, as interned `Spot` objects, and lets go of the frames. *Naming* (file, line,
function, callee) happens once a spot, later, when somebody wants to read the stack.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType

from midwatch.guard import guard
from midwatch.model.idle import is_idle
from midwatch.model.site import Frame
from midwatch.watch.callee import callee
from midwatch.watch.frames import places
from midwatch.watch.paths import Paths

DEPTH = 48
"""Frames of a stack that are kept, the innermost ones."""
_MAX_SPOTS = 8192
_MAX_STACKS = 2048
_MAX_NAME = 120
_LOCK_CALLS = frozenset({"__enter__", "acquire"})


class Spot:
    """One instruction of one code object. There is one `Spot` for it, so stacks compare and hash by identity."""

    __slots__ = ("_frame", "_idle", "_paths", "code", "lasti", "module")

    def __init__(self, code: CodeType, lasti: int, module: str, paths: Paths) -> None:
        self.code = code
        self.lasti = lasti
        self.module = module
        self._paths = paths
        self._frame: Frame | None = None
        self._idle: bool | None = None

    @property
    def frame(self) -> Frame:
        """The names of this place; worked out at the first use."""
        if self._frame is None:
            code = self.code
            self._frame = Frame(
                file=self._paths.relative(code.co_filename, self.module),
                line=line_at(code, self.lasti),
                function=_qualified_name(code)[:_MAX_NAME],
                module=self.module,
                callee=guard.call("stacks.callee", callee, code, self.lasti, default="")[:_MAX_NAME],
            )
        return self._frame

    @property
    def named(self) -> bool:
        """Whether its names have been worked out."""
        return self._frame is not None

    @property
    def idle(self) -> bool:
        """Whether a thread with this innermost spot only waits for work or for another thread."""
        if self._idle is None:
            self._idle = is_idle((self.frame,))
        return self._idle

    @property
    def at_lock(self) -> bool:
        """Whether the frame may be acquiring a lock: it enters a ``with`` or calls ``acquire``."""
        return self.frame.callee in _LOCK_CALLS


Stack = tuple[Spot, ...]
"""Innermost first. Equal stacks are one object while `Stacks` remembers them, which keeps the buffers small."""


class Stacks:
    """Walks frames. Used by several threads at once, and inside garbage collections: it takes no lock."""

    def __init__(self, paths: Paths | None = None) -> None:
        self._paths = paths or Paths()
        # Keyed by the identity of the code object: its own hash reads the whole code, and its equality ignores the
        # file. The spot keeps the code object alive, so an identity is not used again.
        self._spots: dict[tuple[int, int], Spot] = {}
        self._whole: dict[Stack, Stack] = {}

    def walk(self, frame: FrameType | None, depth: int = DEPTH) -> Stack:
        """Return where ``frame`` and its callers stand, innermost first, at most ``depth`` of them."""
        spots = self._spots
        whole = tuple([spots.get((id(place[0]), place[1])) or self._add(*place) for place in places(frame, depth)])
        if len(self._whole) >= _MAX_STACKS:
            self._whole.clear()
        return self._whole.setdefault(whole, whole)

    def frames(self, stack: Stack, give_way: Callable[[], None] | None = None) -> tuple[Frame, ...]:
        """Return the names of ``stack``, innermost first; ``give_way`` is called before each that is worked out."""
        names = []
        for spot in stack:
            if give_way is not None and not spot.named:
                give_way()
            names.append(spot.frame)
        return tuple(names)

    def look(self, frame: FrameType | None, depth: int = DEPTH) -> tuple[Frame, ...]:
        """Walk and name in one."""
        return self.frames(self.walk(frame, depth))

    def _add(self, code: CodeType, lasti: int, variables: dict[str, object]) -> Spot:
        module = dict.get(variables, "__name__")
        if len(self._spots) >= _MAX_SPOTS:
            self._spots.clear()
        # setdefault: another thread may have added the same spot meanwhile, and there must be one.
        spot = Spot(code, lasti, module if type(module) is str else "", self._paths)
        return self._spots.setdefault((id(code), lasti), spot)


def line_at(code: CodeType, lasti: int) -> int:
    """Return the line of the instruction at byte ``lasti``, as ``f_lineno`` of a frame there gives it.

    It is worked out from the code, never read from the live frame, which may have moved on since.
    """
    for start, end, line in code.co_lines():
        if start <= lasti < end:
            return line if line is not None else code.co_firstlineno
    return code.co_firstlineno


def _qualified_name(code: CodeType) -> str:
    if sys.version_info >= (3, 11):
        return code.co_qualname
    return code.co_name
