# noqa: INP001  (a folder for PYTHONPATH, not a package)
"""What `midwatch run` puts before the service: attaches the agent, then makes room for the host's own sitecustomize."""

import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path


def _chain() -> None:
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _attach() -> None:
    try:
        import midwatch.auto  # noqa: F401
    except ImportError as error:
        sys.stderr.write(
            f"midwatch: the service runs without the agent, since its Python has none ({error}); install it there\n"
        )


try:
    _chain()
finally:
    _attach()
