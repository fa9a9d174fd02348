"""What a thread was doing when one stack sample was taken, read from the names in its frames."""

from __future__ import annotations

from enum import Enum

from midwatch.model.blame import own_depth
from midwatch.model.idle import is_idle
from midwatch.model.site import Frame

SYNCS = frozenset(
    {"item", "cpu", "synchronize", "tolist", "numpy", "nonzero", "is_nonzero", "_local_scalar_dense", "argwhere"}
)
"""Calls that make the host wait for the device where the tensor lives there."""

LOCKS = frozenset({"acquire", "__enter__"})

BLOCKING = frozenset(
    {
        "accept", "communicate", "connect", "execute", "fdatasync", "fetchall", "fetchone", "flush", "fsync",
        "getaddrinfo", "getresponse", "open", "poll", "read", "readinto", "readline", "readlines", "recv", "recv_into",
        "recvfrom", "select", "send", "sendall", "sendfile", "sendto", "sleep", "sync", "urlopen", "wait", "waitpid",
        "write", "writelines",
    }
)  # fmt: skip
"""Calls that neither compute nor wait for the device: files, sockets, processes, sleep."""

OPERATORS = frozenset(
    {
        "_call_impl", "_wrapped_call_impl", "addmm", "backward", "baddbmm", "bmm", "cat", "conv1d", "conv2d", "conv3d",
        "einsum", "embedding", "embedding_bag", "forward", "gelu", "layer_norm", "linear", "log_softmax", "lstm",
        "matmul", "mm", "relu", "scaled_dot_product_attention", "sigmoid", "silu", "softmax", "tanh", "topk",
    }
)  # fmt: skip
"""The model's own work, as far as a name can tell."""


NON_BLOCKING = frozenset(
    {"call_soon", "call_soon_threadsafe", "cancel", "notify", "notify_all", "put_nowait", "release", "set",
     "set_exception", "set_result"}
)  # fmt: skip
"""Calls that return at once: a thread found in one for long waits for the interpreter, or is not scheduled."""


WAITS_FOR_WORK = frozenset({"get", "put"})
"""A queue written in C leaves no frame of its own; ``dict.get`` is never caught in the act."""


ASKS_A_SELECTOR = frozenset({"psycopg", "subprocess"})
"""Packages that wait in a selector, as event loops do, for one answer: of a database, of a child."""


class Activity(str, Enum):
    """What one sample shows."""

    IDLE = "idle"
    GC = "gc"
    SYNC = "sync"
    LOCK = "lock"
    BLOCKED = "blocked"
    OPERATORS = "operators"
    PYTHON = "python"


def activity(frames: tuple[Frame, ...], *, has_device: bool) -> Activity:
    """Read what a thread was doing from its frames, innermost first.

    The frames from the innermost to the service's own one are looked at, since a call such as ``print(tensor)`` or
    ``requests.get`` ends in a library that does the waiting, and a collection may run finalizers.
    """
    depth = own_depth(frames)
    if depth is None or (is_idle(frames) and not _asks(frames)) or frames[0].callee in WAITS_FOR_WORK:
        return Activity.IDLE
    names = [frame.callee for frame in frames[: depth + 1]]
    if names[-1] == "collect":
        return Activity.GC
    if has_device and _waits_for_device(frames[: depth + 1]):
        return Activity.SYNC
    if names[0] in LOCKS:
        return Activity.LOCK
    package = frames[0].module.partition(".")[0]
    if names[0] in BLOCKING and package != "asyncio":  # an event loop's sockets never block
        return Activity.BLOCKED
    if package == "torch" or names[0] in OPERATORS:
        return Activity.OPERATORS
    return Activity.PYTHON


def _asks(frames: tuple[Frame, ...]) -> bool:
    """Return whether the innermost frame is a selector's, in the hands of who waits for one answer."""
    above = frames[1].module.partition(".")[0] if len(frames) > 1 else ""
    return frames[0].module == "selectors" and above in ASKS_A_SELECTOR


def returns_at_once(frames: tuple[Frame, ...]) -> bool:
    """Return whether the innermost frame calls, or is in, what takes no time of its own."""
    if not frames:
        return False
    innermost = frames[0]
    function = innermost.function.rpartition(".")[2]
    in_loop = innermost.module.partition(".")[0] == "asyncio" and innermost.callee in BLOCKING
    return in_loop or innermost.callee in NON_BLOCKING or function in NON_BLOCKING


def _waits_for_device(frames: tuple[Frame, ...]) -> bool:
    """Return whether the innermost frame calls what waits, or torch's own function for it is under way.

    A tensor's methods are written in C and leave no frame: one above the call means that ``self.item(x)`` is a module.
    """
    return frames[0].callee in SYNCS or any(
        frame.function.rpartition(".")[2] in SYNCS and frame.module.partition(".")[0] == "torch" for frame in frames
    )
