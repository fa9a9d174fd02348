"""What tensor cores are worth on a device, and how fast its link to the host is, from the vendors' data sheets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Peak(NamedTuple):
    """Dense peak rates of one device in TFLOPS; ``precision`` is the tensor-core format that fp32 code can use.

    ``pcie`` is the generation of its link to the host (16 lanes; a faster link is counted as the newest).
    """

    fp32: float
    tensor: float
    precision: str
    pcie: int


PEAKS: tuple[tuple[str, Peak], ...] = (
    ("B200", Peak(75.0, 1100.0, "TF32", 5)),
    ("GH200", Peak(67.0, 494.0, "TF32", 5)),
    ("H200", Peak(67.0, 494.0, "TF32", 5)),
    ("H100 PCIE", Peak(51.0, 378.0, "TF32", 5)),
    ("H100", Peak(67.0, 494.0, "TF32", 5)),
    ("A100", Peak(19.5, 156.0, "TF32", 4)),
    ("A30", Peak(10.3, 82.0, "TF32", 4)),
    ("A40", Peak(37.4, 74.8, "TF32", 4)),
    ("A10", Peak(31.2, 62.5, "TF32", 4)),
    ("L40S", Peak(91.6, 183.0, "TF32", 4)),
    ("L40", Peak(90.5, 90.5, "TF32", 4)),
    ("L4", Peak(30.3, 60.0, "TF32", 4)),
    ("V100", Peak(15.7, 125.0, "FP16", 3)),
    ("T4", Peak(8.1, 65.0, "FP16", 3)),
)
"""A part of the device's name with its rates: the first that matches counts, so longer names stand first."""

PINNED_GB_S = {3: 12.0, 4: 24.0, 5: 50.0}
"""What copies from and to pinned memory reach, by generation of the link: some 80 % of 16, 32 and 64 GB/s."""

USABLE = 0.5
"""Share of the peak ratio that is predicted: real matrices do not reach the peak, and memory becomes the limit."""

CAP = 4.0
"""No more than this factor is ever predicted."""


def peak_of(name: str) -> Peak | None:
    """Return the rates of the device called ``name``, None where it is not in the table."""
    upper = f" {name.upper().replace('-', ' ')} "
    for part, peak in PEAKS:
        if f" {part} " in upper:
            return peak
    return None


def predicted_speedup(peak: Peak) -> float:
    """Return by which factor fp32 matrix work is predicted to become faster on tensor cores, at least 1."""
    return max(1.0, min(CAP, USABLE * peak.tensor / peak.fp32))


def pinned_gb_s(names: Iterable[str]) -> float:
    """Return how fast pinned copies are on the slowest of these devices, 0.0 where one is not in the table."""
    peaks = [peak_of(name) for name in names]
    return min((PINNED_GB_S[peak.pcie] if peak else 0.0 for peak in peaks), default=0.0)
