"""What the trace of one rank says of its part in a job."""

import json

import pytest
from midwatch.trace.ranks import summarise_rank

GROUPS = [{"pg_name": "0", "ranks": [0, 1, 2, 3]}, {"pg_name": "7", "ranks": [1, 3]}]


@pytest.fixture
def write(tmp_path, lanes):
    """Write the collected events as the trace of a rank; ``more`` are fields of ``distributedInfo``."""

    def written(rank=1, world=4, **more):
        path = tmp_path / "rank.json"
        told = {"backend": "nccl", "rank": rank, "world_size": world, **more}
        path.write_text(
            json.dumps({"distributedInfo": told, "baseTimeNanoseconds": 10**18, "traceEvents": lanes.events})
        )
        return path

    return written


def step(lanes, number, start, end):
    lanes.host("user_annotation", f"ProfilerStep#{number}", start, end)


def collective(lanes, launch, start, end, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", **told):
    link = lanes.call("cudaLaunchKernelExC", launch, launch + 5)
    lanes.work("kernel", f"{name}(ncclDevKernelArgsStorage<4096ul>)", start, end, link, 20, **told)


def test_collectives_belong_to_the_step_that_launched_them(lanes, write):
    step(lanes, 5, 0, 1000)
    step(lanes, 6, 1000, 2000)
    lanes.launch(100, 5, 110, 400)
    collective(lanes, 900, 1100, 1300)  # the device gets to it in the next step
    collective(lanes, 1500, 1510, 1800)
    summary, rank = summarise_rank(write())
    assert summary.window.requests == 2
    assert (rank.rank, rank.world_size, rank.backend, rank.lane) == (1, 4, "nccl", "device")
    assert [(one.number, len(one.collectives)) for one in rank.steps] == [(5, 1), (6, 1)]
    first = rank.steps[0]
    assert (first.duration_ns, first.compute_ns) == (1_000_000, 290_000)
    assert first.collectives[0].name == "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    assert first.collectives[0].start_ns == 10**18 + 1_100_000
    assert first.collectives[0].duration_ns == 200_000


def test_groups_come_from_the_kernel_or_from_the_operator_that_launched_it(lanes, write):
    step(lanes, 1, 0, 1000)
    collective(lanes, 100, 110, 200, **{"Process Group Name": "7", "Collective name": "allreduce"})
    lanes.op("record_param_comms", 290, 320, **{"External id": 55, "Process Group Name": "0"})
    link = lanes.correlation + 1
    lanes.host("cuda_runtime", "hipExtLaunchKernel", 300, 305, correlation=link, **{"External id": 55})
    lanes.work("kernel", "ncclDevKernel_Generic(void)", 310, 400, link, 20)
    _, rank = summarise_rank(write(pg_config=GROUPS))
    assert [one.group for one in rank.steps[0].collectives] == ["7", "0"]
    assert rank.groups == (("0", (0, 1, 2, 3)), ("7", (1, 3)))


def test_what_has_a_root_or_two_ends_is_left_out(lanes, write):
    step(lanes, 1, 0, 1000)
    collective(lanes, 100, 110, 200, name="ncclDevKernel_Broadcast_RING_LL")
    collective(
        lanes, 200, 210, 300, name="ncclDevKernel_SendRecv", **{"Process Group Name": "0", "Collective name": "send"}
    )
    collective(
        lanes,
        300,
        310,
        400,
        name="ncclDevKernel_SendRecv",
        **{"Process Group Name": "0", "Collective name": "all_to_allv"},
    )
    collective(lanes, 400, 410, 500, name="ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL")
    _, rank = summarise_rank(write())
    assert [one.duration_ns for one in rank.steps[0].collectives] == [90_000, 90_000]


def test_without_steps_the_window_is_one(lanes, write):
    lanes.request(0, 1000)
    collective(lanes, 100, 110, 200)
    _, rank = summarise_rank(write())
    assert [(one.number, len(one.collectives)) for one in rank.steps] == [(-1, 1)]


@pytest.mark.parametrize("told", [{"rank": 0, "world_size": 1}, {"backend": "nccl"}, {"rank": "none"}, [], None, "x"])
def test_who_is_alone_or_names_no_rank_is_none(tmp_path, lanes, told):
    lanes.op("aten::mm", 0, 10)
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"distributedInfo": told, "traceEvents": lanes.events}))
    assert summarise_rank(path)[1] is None


@pytest.mark.parametrize("told", [{"rank": 2}, {"rank": "2", "world_size": None, "pg_config": 7}])
def test_a_rank_of_an_unknown_number(tmp_path, lanes, told):
    lanes.op("aten::mm", 0, 10)
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"distributedInfo": told, "traceEvents": lanes.events}))
    rank = summarise_rank(path)[1]
    assert (rank.rank, rank.world_size, rank.lane, rank.groups) == (2, 0, "", ())


def test_gloo_records_its_collectives_on_the_host(data):
    ranks = [summarise_rank(data / "ranks" / f"rank{number}.json.gz")[1] for number in range(3)]
    assert [(rank.rank, rank.world_size, rank.backend, rank.lane) for rank in ranks] == [
        (number, 3, "gloo", "host") for number in range(3)
    ]
    for rank in ranks:
        assert [one.number for one in rank.steps] == [1, 2, 3, 4, 5]
        assert [[part.name for part in one.collectives] for one in rank.steps] == [["gloo:all_reduce"]] * 5
