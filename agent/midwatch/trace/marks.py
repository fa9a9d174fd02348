"""What the names of events say of them: the data loader, torch.compile at work, and what only encloses operators."""

from __future__ import annotations

import re

from midwatch.trace.frames import parse_python_name

REGION = "Torch-Compiled Region"
"""One call of what `torch.compile` made of a function, or of the rest of one after a graph break."""

_LOADER = re.compile(r"^(?:enumerate\(DataLoader\)#)?\w*DataLoader\w*\.__next__$")
_LOADER_FILE = re.compile(r"(?:^|[/\\])torch[/\\]utils[/\\]data[/\\]dataloader\.py$")
_COMPILATION = re.compile(r"^(?:entire_frame_compile|_compile(?:\.compile_inner)?)(?: \(dynamo_timed\))?$")
_COMPILER_FILE = re.compile(r"(?:^|[/\\])torch[/\\]_dynamo[/\\]convert_frame\.py$")
_ENCLOSING = re.compile(
    r"^(?:TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue|"
    r"ProfilerStep#|enumerate\(DataLoader\)|dynamo$|.* \(dynamo_timed\)$)"
)


def is_loader(name: str) -> bool:
    """Return whether this annotation or operator is the step's wait for its next batch."""
    return bool(_LOADER.match(name))


def is_loader_frame(name: str) -> bool:
    """Return the same of a Python frame."""
    frame = parse_python_name(name)
    return frame is not None and frame.function == "__next__" and bool(_LOADER_FILE.search(frame.file))


def is_compilation(name: str) -> bool:
    """Return whether this annotation or operator is one compilation by `torch.compile`, from start to end."""
    return bool(_COMPILATION.match(name))


def is_compilation_frame(name: str) -> bool:
    """Return the same of a Python frame."""
    frame = parse_python_name(name)
    return (
        frame is not None
        and frame.function in ("compile_inner", "_compile")
        and bool(_COMPILER_FILE.search(frame.file))
    )


def is_operator(name: str) -> bool:
    """Return whether an event among the operators computes something, and does not only enclose others."""
    return not _ENCLOSING.match(name) and not is_loader(name) and not is_compilation(name)
