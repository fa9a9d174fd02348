"""What tensor cores are worth on a device, from the vendors' data sheets."""

from __future__ import annotations

from typing import NamedTuple


class Peak(NamedTuple):
    """Dense peak rates of one device in TFLOPS; ``precision`` is the tensor-core format that fp32 code can use."""

    fp32: float
    tensor: float
    precision: str


PEAKS: tuple[tuple[str, Peak], ...] = (
    ("B200", Peak(75.0, 1100.0, "TF32")),
    ("GH200", Peak(67.0, 494.0, "TF32")),
    ("H200", Peak(67.0, 494.0, "TF32")),
    ("H100 PCIE", Peak(51.0, 378.0, "TF32")),
    ("H100", Peak(67.0, 494.0, "TF32")),
    ("A100", Peak(19.5, 156.0, "TF32")),
    ("A30", Peak(10.3, 82.0, "TF32")),
    ("A40", Peak(37.4, 74.8, "TF32")),
    ("A10", Peak(31.2, 62.5, "TF32")),
    ("L40S", Peak(91.6, 183.0, "TF32")),
    ("L40", Peak(90.5, 90.5, "TF32")),
    ("L4", Peak(30.3, 60.0, "TF32")),
    ("V100", Peak(15.7, 125.0, "FP16")),
    ("T4", Peak(8.1, 65.0, "FP16")),
)
"""A part of the device's name with its rates: the first that matches counts, so longer names stand first."""

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
