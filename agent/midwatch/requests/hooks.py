"""The lasting hooks on one root module. They must survive what people do to modules: copy, pickle, compile, trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import CodeType
from typing import Any

from midwatch.guard import guard
from midwatch.requests.units import Root, Units

_EVAL_FRAME = "torch._C._dynamo.eval_frame"
_frames: Any = None
"""Dynamo's `eval_frame`, once it is imported: while code of the host's is compiled, the hooks must pause it."""


class _Hook:
    """A forward hook. A copy of the module shares it; a pickle of the module does not know Midwatch."""

    __slots__ = ("_root", "_units")

    def __init__(self, units: Units, root: Root) -> None:
        self._units = units
        self._root = root

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # `nullcontext().__exit__` takes any three arguments and returns None: as a hook it does nothing, and it can
        # be loaded where Midwatch is not installed.
        return getattr, (nullcontext(), "__exit__")

    def __copy__(self) -> _Hook:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> _Hook:
        return self


class EnterHook(_Hook):
    """Before the forward of a root module."""

    __slots__ = ()

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note that the call begins. Changes nothing of it."""
        frames = _frames
        prior = None if frames is None else frames.set_eval_frame(None)
        try:
            self._units.enter(self._root, module, args, kwargs)
        except Exception as error:
            guard.failed("units.enter", error)
        finally:
            if frames is not None:
                frames.set_eval_frame(prior)


class LeaveHook(_Hook):
    """After it, also where it raised."""

    __slots__ = ()

    def __call__(self, module: Any, _args: tuple[Any, ...], _result: Any) -> None:
        """Note that the call has ended. Changes nothing of its result."""
        frames = _frames
        prior = None if frames is None else frames.set_eval_frame(None)
        try:
            self._units.leave(self._root, module)
        except Exception as error:
            guard.failed("units.leave", error)
        finally:
            if frames is not None:
                frames.set_eval_frame(prior)


def _inert(_hook: _Hook, *_call: Any) -> None:
    """What Dynamo puts into a graph in the place of a hook."""


for _method in (EnterHook.__call__, LeaveHook.__call__):
    vars(_method)["_torchdynamo_inline"] = _inert


def dynamo_must_skip() -> None:
    """Have Dynamo leave the two hooks alone; call it once `torch._dynamo` is imported.

    While compiled code is entered, Dynamo looks at every new frame, the hooks' too, and would compile them: a graph
    for nothing, with a warning. The hooks themselves are put on its list of code to skip; what they call is hidden
    by pausing it meanwhile.
    """
    global _frames
    _frames = sys.modules.get(_EVAL_FRAME)
    if _frames is None:
        return
    for code in (EnterHook.__call__.__code__, LeaveHook.__call__.__code__):
        _skip(_frames, code)


def _skip(frames: Any, code: CodeType) -> None:
    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction  # noqa: SLF001 - Dynamo's own switch, there is no public one
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(action.SKIP, action.DEFAULT))  # noqa: SLF001
    elif hasattr(frames, "skip_code"):
        frames.skip_code(code)
