"""Build hook: compiles the agent's C++ shim into the wheel, for editable installs into the source tree.

Without a compiler the build goes on: the wheel then works everywhere, with the direct engine off (`midwatch doctor`
says so).
"""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_CAPTURE = Path("agent", "midwatch", "capture")


class ShimBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before each wheel, standard and editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the shim; a wheel that carries it is bound to this platform, though to no version of Python."""
        build = self._build_module()
        try:
            build.build_shim(force=version == "standard")
        except build.ShimBuildError as error:
            self.app.display_warning(f"{error}. The wheel is built without the shim: its direct engine will be off.")
            return
        if version == "standard":
            build_data["artifacts"].append(str(_CAPTURE / build.LIBRARY.name))
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"

    def _build_module(self) -> Any:
        # By its path: the package itself is not importable while its own wheel is being built.
        path = Path(self.root, _CAPTURE, "build.py")
        spec = importlib.util.spec_from_file_location("midwatch_capture_build", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is missing from the source tree")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
