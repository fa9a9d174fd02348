"""The environment variables that Kineto reads, set once, early, and never toggled.

Changing ``TEARDOWN_CUPTI`` between sessions has hung services for good, and `os.environ` must not be written while
other threads read it: so the agent calls `prepare_environment` at its start, before torch has threads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping

from midwatch.capture.version import TorchVersion, installed_version

_TEAR_DOWN = "TEARDOWN_CUPTI"
_LOG_LEVEL = "KINETO_LOG_LEVEL"
_SILENT = "6"


def prepare_environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set what Kineto should know before its first session; what the host has set stays.

    A lower log level would print two lines to standard error for each window. Without a tear-down after each window
    CUPTI stays attached, which costs a launch-bound service 10 to 30 % for good, and loses kernels.
    """
    environ.setdefault(_LOG_LEVEL, _SILENT)
    version = installed_version()
    if version is not None and tear_down_is_safe(version):
        environ.setdefault(_TEAR_DOWN, "1")


def tear_down_is_safe(version: TorchVersion) -> bool:
    """Whether CUPTI can be torn down and attached again: torch 2.11 (kineto#1169), and CUDA 12.6 for CUDA graphs."""
    return version.number >= (2, 11) and version.cuda >= (12, 6)


def tears_down(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a session with the device ends with a tear-down now; torch itself may have switched it off."""
    return environ.get(_TEAR_DOWN, "0") not in ("", "0")
