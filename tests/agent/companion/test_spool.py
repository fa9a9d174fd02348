import os

from midwatch.companion.folders import Folder
from midwatch.companion.spool import MEMORY_BYTES, Kind


def drain(spool):
    taken = []
    while (entry := spool.take()) is not None:
        taken.append((entry.batch_id, spool.load(entry)))
    return taken


def test_batches_come_out_in_order_and_go_when_they_are_done(make_spool, entry, tmp_path):
    spool = make_spool()
    for kind in (Kind.SAMPLES, Kind.EVIDENCE, Kind.SAMPLES, Kind.TRACE):
        made = entry(kind)
        spool.add(made, made.batch_id.encode())
    assert drain(spool) == [(f"batch{n}", f"batch{n}".encode()) for n in range(1, 5)]
    assert spool.waiting == 4
    for number in range(1, 5):
        assert spool.done(f"batch{number}").batch_id == f"batch{number}"
    assert spool.done("batch1") is None
    assert spool.waiting == 0
    assert [path.name for path in (tmp_path / "spool" / "me").iterdir()] == ["lock"]


def test_what_was_sent_but_not_answered_is_sent_again_in_its_old_order(make_spool, entry):
    spool = make_spool()
    for kind in (Kind.SAMPLES, Kind.EVIDENCE, Kind.SAMPLES):
        spool.add(entry(kind), b"x")
    spool.take(), spool.take()
    spool.done("batch1")
    spool.give_back()
    assert [name for name, _ in drain(spool)] == ["batch2", "batch3"]


def test_a_batch_can_be_put_behind_the_others(make_spool, entry):
    spool = make_spool()
    for _ in range(3):
        spool.add(entry(), b"x")
    spool.take()
    spool.give_back(last="batch1")
    assert [spool.take().batch_id for _ in range(2)] == ["batch2", "batch3"]


def test_it_survives_a_kill(make_spool, entry, tmp_path):
    first = make_spool()
    first.add(entry(), b"one")
    first.add(entry(Kind.EVIDENCE), b"two")
    first.take()
    (tmp_path / "spool" / "me" / "half.partial").write_bytes(b"x")
    for folder in first._folders:
        os.close(folder._handle)  # what a kill does
    first._folders = []
    second = make_spool()
    assert second.waiting == 2
    assert drain(second) == [("batch1", b"one"), ("batch2", b"two")]
    assert not (tmp_path / "spool" / "me" / "half.partial").exists()


def test_over_the_bound_samples_go_first_then_traces_then_evidence(make_spool, entry, drops):
    spool = make_spool(limit_bytes=3 * 4096)
    for kind in (Kind.EVIDENCE, Kind.TRACE, Kind.SAMPLES):
        spool.add(entry(kind, records=5), b"x")
    spool.add(entry(Kind.EVIDENCE), b"x")
    assert dict(drops.counts()) == {"spool_full_samples": 5}
    spool.add(entry(Kind.EVIDENCE), b"x")
    assert dict(drops.counts()) == {"spool_full_samples": 5, "spool_full_trace": 5}
    spool.add(entry(Kind.EVIDENCE), b"x" * 5000)
    assert dict(drops.counts())["spool_full_evidence"] == 6
    assert [name for name, _ in drain(spool)] == ["batch5", "batch6"]


def test_new_samples_do_not_push_out_evidence(make_spool, entry, drops):
    spool = make_spool(limit_bytes=4096)
    spool.add(entry(Kind.EVIDENCE), b"x")
    spool.add(entry(Kind.SAMPLES), b"x")
    assert [name for name, _ in drain(spool)] == ["batch1"]
    assert dict(drops.counts()) == {"spool_full_samples": 1}


def test_the_bound_counts_what_a_restart_finds(make_spool, entry, drops):
    first = make_spool()
    for _ in range(4):
        first.add(entry(), b"x")
    first.close()
    assert make_spool(limit_bytes=2 * 4096).waiting == 2
    assert dict(drops.counts()) == {"spool_full_samples": 2}


def test_the_spool_of_a_dead_agent_is_sent_by_another_and_then_gone(make_spool, entry, tmp_path):
    dead, living, me = make_spool("dead"), make_spool("living"), make_spool("me")
    dead.add(entry(), b"left")
    living.add(entry(), b"not yours")
    me.add(entry(), b"own")
    assert me.adopt() == 0
    dead.close()
    assert me.adopt() == 1
    assert me.adopt() == 0
    assert drain(me) == [("batch1", b"left"), ("batch3", b"own")]
    me.done("batch1")
    assert sorted(path.name for path in (tmp_path / "spool").iterdir()) == ["living", "me"]


def test_an_empty_spool_of_a_dead_agent_is_removed(make_spool, tmp_path):
    me = make_spool("me")
    empty = tmp_path / "spool" / "empty"
    empty.mkdir()
    (empty / "lock").touch()
    assert me.adopt() == 0
    assert not empty.exists()


def test_files_that_are_no_batches_are_moved_away_and_counted(make_spool, tmp_path, drops):
    folder = tmp_path / "spool" / "me"
    folder.mkdir(parents=True)
    for name in ("notes.txt", "x.samples.1.b.pb", "00000000000000000001.love.1.b.pb"):
        (folder / name).write_bytes(b"?")
    spool = make_spool()
    assert spool.take() is None
    assert dict(drops.counts()) == {"spool_corrupt": 3}
    assert len(list((tmp_path / "spool" / "corrupt").iterdir())) == 3
    assert make_spool("other").adopt() == 0


def test_a_batch_that_cannot_be_read_is_moved_away(make_spool, entry, tmp_path, drops):
    spool = make_spool()
    spool.add(entry(), b"?")
    spool.corrupt(spool.take().batch_id)
    assert spool.waiting == 0
    assert dict(drops.counts()) == {"spool_corrupt": 1}
    assert len(list((tmp_path / "spool" / "corrupt").iterdir())) == 1


def test_two_companions_never_share_a_folder(make_spool, entry, monkeypatch):
    monkeypatch.setattr("midwatch.companion.folders._CLAIM_TRIES", 2)
    make_spool("me").add(entry(), b"x")
    second = make_spool("me")
    assert "cannot be used" in second.problem
    assert second.waiting == 0


def test_a_full_disk_leaves_memory_and_then_counted_drops(make_spool, entry, drops, monkeypatch):
    spool = make_spool(limit_bytes=1 << 40)

    def full(self, name, payload):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", full)
        quarter = b"x" * (MEMORY_BYTES // 4)
        for kind in (Kind.EVIDENCE, Kind.SAMPLES, Kind.SAMPLES, Kind.SAMPLES, Kind.EVIDENCE):
            spool.add(entry(kind), quarter)
        assert spool.problem.startswith("the spool cannot be written (No space left on device)")
        assert dict(drops.counts()) == {"spool_unwritable_samples": 1}
        assert spool.unsaved == 4
    spool.add(entry(), b"disk again")
    assert spool.problem == ""
    assert [name for name, _ in drain(spool)] == ["batch1", "batch3", "batch4", "batch5", "batch6"]


def test_without_a_place_all_is_in_memory(make_spool, entry):
    spool = make_spool(root=None)
    spool.add(entry(), b"x")
    spool.add(entry(records=3), b"y")
    assert spool.unsaved == 4
    spool.take()
    assert spool.unsaved == 4
    spool.give_back()
    assert drain(spool) == [("batch1", b"x"), ("batch2", b"y")]
    spool.done("batch1")
    assert spool.unsaved == 3


def test_a_place_that_is_a_file_is_one_sentence(make_spool, tmp_path):
    (tmp_path / "file").touch()
    assert "cannot be used" in make_spool(root=tmp_path / "file").problem
