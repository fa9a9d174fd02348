"""Finding root modules: those whose call is the outermost module call on its thread.

A global forward-pre hook finds them at their first call and is then taken away again, since it costs some microseconds
for each call of every submodule. Compiled modules warn while a global hook is there, and Dynamo guards on its absence;
so from the import of `torch._dynamo` on the roots are found by looking at the threads' stacks, once a second.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from midwatch.clock import Clock
from midwatch.guard import guard
from midwatch.requests.units import Root, Units

if TYPE_CHECKING:
    from midwatch.model.status import Part
    from midwatch.requests.handsoff import HandsOff

_MAX_ROOTS = 32
"""A service in which more modules than that are outermost has no root: its forward is a plain function."""
_QUIET_CALLS = 200
_QUIET_NS = 30_000_000_000
_AGAIN_NS = 300_000_000_000
_MAX_FRAMES = 400


class Roots:
    """Finds root modules and keeps hooks on them."""

    def __init__(self, clock: Clock, units: Units) -> None:
        self._clock = clock
        self._units = units
        self._lock = threading.RLock()
        self._known: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()
        self._names: dict[str, None] = {}
        self._hands_off: HandsOff | None = None
        self._global: Any = None
        self._call_code: Any = None
        self._armed_ns = 0
        self._quiet = 0
        self._detail = "torch is not imported yet"
        self._fragmented = False

    def start(self) -> None:
        """Begin to look. Call it once torch is imported; does nothing before."""
        module = sys.modules.get("torch.nn.modules.module")
        if module is None:
            return
        # Not before there is a torch: a service waits for what is imported at its start.
        from midwatch.requests.handsoff import HandsOff

        self._hands_off = self._hands_off or HandsOff(self.without_hooks)
        self._call_code = module.Module._call_impl.__code__  # noqa: SLF001 - the frame that every call has
        self._detail = "no root module has been called yet"
        self._hands_off.start()
        if "torch._dynamo" in sys.modules:
            self.dynamo_imported()
        else:
            self._arm()

    def stop(self) -> None:
        """Take all hooks away."""
        self._disarm()
        with self._lock:
            hooked = list(self._known.values())
            self._known.clear()
        for handles in hooked:
            _remove(handles)
        if self._hands_off is not None:
            self._hands_off.stop()
        self._call_code = None

    def after_fork(self) -> None:
        """In a forked child: a thread of the parent's may have held the lock."""
        self._lock = threading.RLock()

    def status(self) -> Part:
        """Say which root modules are known."""
        from midwatch.model.status import Part

        if self._fragmented:
            return Part("units", "unavailable", f"over {_MAX_ROOTS} modules are called from outside of any module")
        if not self._names:
            return Part("units", "on", self._detail)
        mode = "; each is taken as a request, since nothing marks any" if self._units.as_requests else ""
        return Part("units", "on", f"root modules: {', '.join(self._names)}{mode}")

    def tick(self, now_ns: int) -> None:
        """Look again from time to time: models are replaced. Call it about once a second."""
        if self._call_code is None or self._fragmented:
            return
        if "torch._dynamo" in sys.modules:
            self._look_at_stacks()
        elif self._global is not None:
            if self._names and now_ns - self._armed_ns > _QUIET_NS:
                self._disarm()
        elif now_ns - self._armed_ns > _AGAIN_NS:
            self._arm()

    def dynamo_imported(self) -> None:
        """Make way for Dynamo."""
        from midwatch.requests.hooks import dynamo_must_skip

        self._disarm()
        dynamo_must_skip()

    def adopt(self, module: Any) -> bool:
        """Put the lasting hooks on ``module``, unless it has them. Return whether it is new."""
        from midwatch.requests.hooks import EnterHook, LeaveHook

        with self._lock:
            if module in self._known or self._fragmented:
                return False
            if len(self._known) >= _MAX_ROOTS:
                self._fragmented = True
            else:
                # The class's methods: scripted modules refuse their own, although their hooks are called.
                base = sys.modules["torch.nn.modules.module"].Module
                root = Root(module)
                self._known[module] = (
                    base.register_forward_pre_hook(module, EnterHook(self._units, root), with_kwargs=True),
                    base.register_forward_hook(module, LeaveHook(self._units, root), always_call=True),
                )
                self._names[root.name] = None
                return True
        self.stop()
        return False

    @contextmanager
    def without_hooks(self, modules: Iterable[Any]) -> Iterator[None]:
        """Take the hooks of ``modules`` away for as long as the block lasts."""
        released = []
        with guard.at("roots.release"), self._lock:
            for module in modules:
                handles = self._known.pop(module, None)
                if handles is not None:
                    _remove(handles)
                    released.append(module)
        try:
            yield
        finally:
            for module in released:
                guard.call("roots.adopt", self.adopt, module, default=False)

    def _arm(self) -> None:
        register = sys.modules["torch.nn.modules.module"].register_module_forward_pre_hook
        self._quiet = 0
        self._armed_ns = self._clock.perf_ns()
        self._global = register(self._seen)

    def _disarm(self) -> None:
        handle, self._global = self._global, None
        if handle is not None:
            handle.remove()

    def _seen(self, module: Any, args: tuple[Any, ...]) -> None:
        """The global hook: some module is being called."""
        try:
            if self._units.inside():
                return
            if module in self._known:
                self._quiet += 1
                if self._quiet >= _QUIET_CALLS:
                    self._disarm()
                return
            root = self._outermost(sys._getframe(1))  # noqa: SLF001 - the one way to one's own callers
            # Hooks put on a module in the middle of its call take effect with the next one, but for the hook at its
            # end. So the very first call is begun here.
            if root is not None and self.adopt(root) and root is module:
                self._units.enter(Root(module), module, args, {})
        except Exception as error:
            guard.failed("roots.seen", error)

    def _outermost(self, frame: FrameType | None) -> Any:
        """Return the module whose call is the outermost one on this stack, or None."""
        from midwatch.watch.frames import caller

        root = None
        for _ in range(_MAX_FRAMES):
            if frame is None:
                return root
            if frame.f_code is self._call_code:
                root = _self_of(frame)
            frame = caller(frame)
        return None

    def _look_at_stacks(self) -> None:
        for root in self._called_now():
            self.adopt(root)

    def _called_now(self) -> list[Any]:
        """Return the outermost modules on all other threads' stacks."""
        from midwatch.watch.frames import look

        found = look(lambda frames: [self._outermost(frame) for frame in frames.values()])
        return [root for root in found if root is not None]


def _self_of(frame: FrameType) -> Any:
    """Return the module whose ``__call__`` a frame runs, or None."""
    from midwatch.watch import peek

    found = peek.variable(frame, "self", local=True)
    return None if found is peek.MISSING else found


def _remove(handles: tuple[Any, Any]) -> None:
    for handle in handles:
        handle.remove()
