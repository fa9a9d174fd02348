"""The process's figures beside those of psutil, and control groups as they lie on disk."""

import threading
import time

import psutil
import pytest
from midwatch.clock import SystemClock
from midwatch.sensors import process
from midwatch.sensors.allocator import AllocatorCounts
from midwatch.sensors.cgroup import Cgroup, CgroupCpu
from midwatch.sensors.process import ProcessSensor
from midwatch.testing import FakeClock


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))


def test_figures_agree_with_psutil(swallowed):
    clock = SystemClock()
    sensor = ProcessSensor(clock)
    other = psutil.Process()
    sensor.start()
    cpu = sum(other.cpu_times()[:2])
    began = clock.perf_ns()
    burn(0.2)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    ticked = clock.perf_ns()
    sensor.tick(ticked)
    cpu = sum(other.cpu_times()[:2]) - cpu
    threads, rss = other.num_threads(), other.memory_info().rss
    stop.set()
    thread.join()
    (sample,) = sensor.take()
    assert sample.cpu_ns >= 0.2e9
    assert sample.cpu_ns / 1e9 == pytest.approx(cpu, abs=0.06)
    assert sample.threads == threads
    assert sample.rss_bytes == pytest.approx(rss, rel=0.2)
    assert sample.interval_ns >= 0.2e9
    assert sample.cpu_quota >= 0.0
    assert abs(sample.unix_ns - time.time_ns()) < 60e9
    assert sensor.between(began, ticked) == (sample,)
    assert sensor.take() == []
    assert not swallowed


def test_who_asks_for_what_was_just_now_is_told_up_to_now():
    clock = FakeClock()
    sensor = ProcessSensor(clock)
    sensor.start()
    clock.advance(5.0)
    sensor.tick(clock.perf_ns())
    clock.advance(2.0)
    spike_ns = clock.perf_ns()
    assert [sample.interval_ns for sample in sensor.between(spike_ns - 1_000_000, spike_ns)] == [2_000_000_000]
    clock.advance(0.05)
    assert len(sensor.between(spike_ns, clock.perf_ns())) == 1
    clock.advance(3.0)
    assert len(sensor.between(0, spike_ns)) == 2
    sensor.tick(clock.perf_ns())
    assert [round(sample.interval_ns / 1e9, 2) for sample in sensor.take()] == [5.0, 2.0, 3.05]


def test_looks_that_come_late_lose_nothing_and_count_nothing_twice(monkeypatch):
    clock, throttled = FakeClock(), [0]
    sensor = ProcessSensor(clock)
    sensor.start()
    monkeypatch.setattr(sensor._cgroup, "read", lambda: CgroupCpu(2.0, throttled[0]))
    sensor._before = sensor._before._replace(cgroup=CgroupCpu(2.0, 0))
    turned_ns = clock.perf_ns()
    for _ in range(5):
        clock.advance(1.0)
        throttled[0] += 100
        sensor.between(0, clock.perf_ns())
        sensor.tick(turned_ns)  # of a turn that began long before
    samples = sensor.take()
    assert sum(sample.throttled_ns for sample in samples) == 500
    assert sum(sample.interval_ns for sample in samples) == 5_000_000_000


def test_counters_are_differences_over_all_threads():
    clock = SystemClock()
    sensor = ProcessSensor(clock)
    sensor.start()

    def switch():
        for _ in range(50):
            time.sleep(0.0001)

    thread = threading.Thread(target=switch)
    thread.start()
    thread.join()
    sensor.tick(clock.perf_ns())
    sensor.tick(clock.perf_ns())
    first, second = sensor.take()
    assert first.voluntary_switches >= 50
    assert 0 <= second.voluntary_switches < 50
    assert second.involuntary_switches >= 0
    assert second.cpu_ns < first.cpu_ns + 10**9


def test_changes_of_the_allocator_ride_along(clock):
    changes = [AllocatorCounts(1, 2, 3), AllocatorCounts()]
    sensor = ProcessSensor(clock, lambda: changes.pop(0))
    sensor.start()
    for _ in range(2):
        clock.now_ns += 10**9
        sensor.tick(clock.now_ns)
    first, second = sensor.take()
    assert (first.alloc_retries, first.device_allocs, first.device_frees) == (1, 2, 3)
    assert (second.alloc_retries, second.device_allocs, second.device_frees) == (0, 0, 0)


def test_without_proc_it_is_unavailable(monkeypatch, tmp_path, clock, swallowed):
    monkeypatch.setattr(process, "_PROC", tmp_path / "nowhere")
    sensor = ProcessSensor(clock)
    sensor.start()
    assert sensor.status().state == "unavailable"
    assert "/proc cannot be read here" in sensor.status().detail
    assert not swallowed


def test_throttled_time_is_a_difference(monkeypatch, tmp_path, clock):
    group = tmp_path / "group"
    group.mkdir()
    (group / "cpu.max").write_text("150000 100000\n")
    (group / "cpu.stat").write_text("usage_usec 1\nthrottled_usec 2000\n")
    monkeypatch.setattr(process, "Cgroup", lambda text: Cgroup("0::/group", tmp_path))
    sensor = ProcessSensor(clock)
    sensor.start()
    (group / "cpu.stat").write_text("usage_usec 9\nthrottled_usec 5000\n")
    clock.now_ns += 10**9
    sensor.tick(clock.now_ns)
    (sample,) = sensor.take()
    assert (sample.throttled_ns, sample.cpu_quota) == (3_000_000, 1.5)


def test_it_is_back_when_there_are_descriptors_again(clock, no_descriptors, swallowed):
    sensor = ProcessSensor(clock)
    sensor.start()
    with no_descriptors():
        for _ in range(5):
            clock.now_ns += 10**9
            sensor.tick(clock.now_ns)
        assert sensor.status().state == "unavailable"
        assert "raise the limit of open files" in sensor.status().detail
    for _ in range(12):
        clock.now_ns += 10**9
        sensor.tick(clock.now_ns)
    assert sensor.status().state == "on"
    assert sensor.take()
    assert not swallowed


def test_it_starts_late_where_there_were_no_descriptors_at_first(clock, no_descriptors, swallowed):
    sensor = ProcessSensor(clock)
    with no_descriptors():
        sensor.start()
        assert sensor.status().state == "unavailable"
    for _ in range(13):
        clock.now_ns += 10**9
        sensor.tick(clock.now_ns)
    assert sensor.status().state == "on"
    assert sensor.take()
    assert not swallowed


def test_what_could_not_be_read_for_a_while_is_not_all_throttled_at_once(monkeypatch, tmp_path, clock, no_descriptors):
    group = tmp_path / "group"
    write(group, cpu__max="150000 100000\n", cpu__stat="throttled_usec 7000000\n")
    monkeypatch.setattr(process, "Cgroup", lambda text: Cgroup("0::/group", tmp_path))
    sensor = ProcessSensor(clock)
    sensor.start()
    with no_descriptors():
        clock.now_ns += 10**9
        sensor.tick(clock.now_ns)
    for _ in range(13):
        clock.now_ns += 10**9
        sensor.tick(clock.now_ns)
    assert {sample.throttled_ns for sample in sensor.take()} == {0}


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


V2_STAT = "usage_usec 5\nuser_usec 3\nnr_periods 10\nnr_throttled 2\nthrottled_usec 7000\n"
V1_STAT = "nr_periods 10\nnr_throttled 2\nthrottled_time 9000000\n"


def test_a_quota_that_changes_is_seen_after_a_while(tmp_path):
    write(tmp_path, cpu__max="150000 100000\n", cpu__stat="throttled_usec 1\n")
    group = Cgroup("0::/\n", tmp_path)
    write(tmp_path, cpu__max="300000 100000\n")
    assert [group.read().quota for _ in range(10)] == [1.5] * 9 + [3.0]


def test_version_2_on_a_host(tmp_path):
    write(tmp_path, cpu__stat=V2_STAT)
    write(tmp_path / "app.slice" / "reco", cpu__stat=V2_STAT, cpu__max="50000 100000\n")
    assert Cgroup("0::/app.slice/reco\n", tmp_path).read() == CgroupCpu(0.5, 7_000_000)


def test_version_2_the_tightest_group_around_counts(tmp_path):
    write(tmp_path, cpu__stat=V2_STAT)
    write(tmp_path / "pod", cpu__stat=V2_STAT.replace("7000", "8000"), cpu__max="200000 100000\n")
    write(tmp_path / "pod" / "box", cpu__stat=V2_STAT, cpu__max="max 100000\n")
    assert Cgroup("0::/pod/box\n", tmp_path).read() == CgroupCpu(2.0, 8_000_000)


def test_version_2_in_a_container_shows_its_own_group_as_the_root(tmp_path):
    write(tmp_path, cpu__stat=V2_STAT, cpu__max="400000 100000\n")
    assert Cgroup("0::/\n", tmp_path).read() == CgroupCpu(4.0, 7_000_000)
    assert Cgroup("0::/../../host/path\n", tmp_path).read() == CgroupCpu(4.0, 7_000_000)


def test_version_1(tmp_path):
    text = "11:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n"
    write(
        tmp_path / "cpu,cpuacct" / "docker" / "abc",
        cpu__stat=V1_STAT,
        cpu__cfs_quota_us="250000\n",
        cpu__cfs_period_us="100000\n",
    )
    assert Cgroup(text, tmp_path).read() == CgroupCpu(2.5, 9_000_000)


def test_version_1_in_a_container_where_the_hosts_path_is_not_there(tmp_path):
    write(
        tmp_path / "cpu,cpuacct",
        cpu__stat=V1_STAT,
        cpu__cfs_quota_us="-1\n",
        cpu__cfs_period_us="100000\n",
    )
    assert Cgroup("4:cpu,cpuacct:/kubepods/x\n", tmp_path).read() == CgroupCpu(0.0, 9_000_000)


@pytest.mark.parametrize("text", ["", "garbage\n", "0::/gone\n", "3:cpuset:/x\n"])
def test_no_group_is_no_limit(tmp_path, text):
    assert Cgroup(text, tmp_path).read() == CgroupCpu()


def test_a_group_that_goes_away_is_no_error(tmp_path):
    write(tmp_path / "a", cpu__stat=V2_STAT, cpu__max="50000 100000\n")
    group = Cgroup("0::/a\n", tmp_path)
    (tmp_path / "a" / "cpu.stat").unlink()
    (tmp_path / "a" / "cpu.max").unlink()
    assert group.read() == CgroupCpu()
