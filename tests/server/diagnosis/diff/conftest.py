"""Reports of hand-made windows: a request of 10 ms, its replay and its parts."""

from dataclasses import replace

import pytest
from midwatch.model.trace import KernelFacts, WaitFacts
from midwatch_server.diagnosis import Evidence, Report, diagnose


def spread_out(summary, jitter=0.002):
    """Let the requests differ a little, as requests do."""
    facts = tuple(
        replace(one, wall_ms=one.wall_ms * (1 + jitter * (i % 5 - 2)), slowest=i % 5 == 4)
        for i, one in enumerate(summary.requests)
    )
    return replace(summary, requests=facts)


def make_report(summary, **more):
    return Report(diagnose(Evidence(summary=summary)), summary=summary, **more)


def make_wait(site, **more):
    facts = {"cause": "item", "api": "cudaStreamSynchronize", "count": 10, "total_ms": 29.0, "max_ms": 4.9,
             "requests_affected": 10, "per_request_ms": 2.9, "recoverable_ms": 2.8, "followed_by_work": 10}  # fmt: skip
    return WaitFacts(**(facts | {"site": site} | more))


def make_kernels(family="gemm", total_ms=30.0, share=0.75, **more):
    facts = {"name": f"{family}_kernel", "count": 300, "median_us": 90.0, "tensor_cores": "no", "dtype": "float32"}
    return KernelFacts(**({"family": family, "total_ms": total_ms, "share": share} | facts | more))


@pytest.fixture
def side(make):
    """Make the report of a window; arguments are those of ``make.window``."""

    def made(*, about=None, jitter=0.002, **facts):
        return make_report(spread_out(make.window(**facts), jitter), **(about or {}))

    return made


@pytest.fixture
def wait():
    return make_wait


@pytest.fixture
def kernels():
    return make_kernels


@pytest.fixture
def report():
    return make_report
