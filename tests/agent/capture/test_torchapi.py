"""What a window records: decided by whether the process uses a device, never by what its torch was built for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch as real
from midwatch.capture.select import Host, Target, why_not
from midwatch.capture.torchapi import Mode, ProfilerCalls, mode_for, uses_device
from midwatch.capture.version import version_of

OPERATORS, ALL = Mode(device=False, ops=True, shapes=False), Mode(device=True, ops=True, shapes=True)


def cuda_build(initialised):
    """A torch built for CUDA 13, as the public index gives it, on a machine where CUDA is in use or was never begun."""

    def forbidden(*_):
        raise AssertionError("this would look for a driver, or initialise CUDA")

    cuda = SimpleNamespace(is_initialized=lambda: initialised, is_available=forbidden, device_count=forbidden)
    cuda.init = cuda.current_device = cuda.synchronize = forbidden
    version = SimpleNamespace(cuda="13.0", hip=None)
    return SimpleNamespace(cuda=cuda, version=version, __version__="2.13.0+cu130", _C=real._C)


@pytest.mark.parametrize("deep", [False, True])
def test_a_cuda_build_without_a_gpu_records_operators(deep):
    torch = cuda_build(initialised=False)
    mode = mode_for(torch, deep=deep)
    assert mode == Mode(device=False, ops=True, shapes=deep)
    kinds = real._C._profiler.ProfilerActivity
    assert ProfilerCalls(torch, mode)._activities == {kinds.CPU}


@pytest.mark.parametrize("name", ["direct", "capped"])
@pytest.mark.parametrize("deep", [False, True])
def test_both_engines_work_there_though_nothing_can_be_torn_down(name, deep):
    torch = cuda_build(initialised=False)
    version = version_of(torch)
    assert version.cuda == (13, 0)
    host = Host(system="linux", machine="x86_64", environ={})
    assert why_not(host, name, Target(version, uses_device(torch)), deep=deep) == ""


def test_where_cuda_is_in_use_light_windows_record_the_device_alone():
    torch = cuda_build(initialised=True)
    kinds = real._C._profiler.ProfilerActivity
    assert mode_for(torch, deep=False) == Mode(device=True, ops=False, shapes=False)
    assert ProfilerCalls(torch, mode_for(torch, deep=False))._activities == {kinds.CUDA}
    assert mode_for(torch, deep=True) == ALL
    assert ProfilerCalls(torch, ALL)._activities == {kinds.CUDA, kinds.CPU}


def test_a_torch_whose_cuda_module_fails_counts_as_one_without():
    broken = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: 1 / 0))
    assert mode_for(broken, deep=False) == OPERATORS


def test_the_torch_of_this_machine_records_operators_as_long_as_it_uses_no_device():
    assert real.cuda.is_initialized() is uses_device(real)
