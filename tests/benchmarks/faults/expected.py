"""What is wrong with each service, and on which line: the truth that the bench compares with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from midwatch.model.site import Site

SERVICES = Path(__file__).resolve().parent / "services"
CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class Expected:
    """One service. ``host_side`` faults must be found with their exact line; a device-side one has none of its own."""

    name: str
    kind: str
    host_side: bool = True

    @property
    def line(self) -> int:
        """The line marked ``# FAULT``, 0 where nothing is wrong."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return next((number for number, text in enumerate(lines, start=1) if text.endswith("# FAULT")), 0)

    @property
    def path(self) -> Path:
        """The service's file."""
        return SERVICES / f"{self.name}.py"

    def is_at(self, site: Site | None) -> bool:
        """Whether a site is the marked line."""
        return site is not None and Path(site.file).name == self.path.name and site.line == self.line


ALL = (
    Expected("item_metric", "hot_sync"),
    Expected("cpu_logging", "hot_sync"),
    Expected("sync_stages", "hot_sync"),
    Expected("tiny_kernels", "launch_bound"),
    Expected("python_gap", "host_gap"),
    Expected("fp32_gemm", "kernel_bound", host_side=False),
    Expected("item_free", "launch_bound"),
    Expected("clean_bf16", CLEAN),
    Expected("clean_graph", CLEAN),
)
SPIKE = Expected("spike_gc", "gc_pause")
HTTP = Expected("http_rank", CLEAN)
WINDOWS_ON = "tiny_kernels"
"""The service whose requests are timed in windows: launch-bound, so it feels every disturbance of the host."""
