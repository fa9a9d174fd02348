import os
import time
from pathlib import Path

import pytest
from midwatch.link import tracedir


@pytest.fixture
def made():
    handles = []
    yield handles
    for handle in handles:
        os.close(handle)


def create(agent_id, among, made):
    path, handle = tracedir.create(agent_id, among)
    made.append(handle)
    return path


def test_it_is_private_and_lies_in_the_first_folder_with_room(tmp_path, made, monkeypatch):
    full, roomy = tmp_path / "full", tmp_path / "roomy"
    full.mkdir()
    roomy.mkdir()
    usage = tracedir.shutil.disk_usage
    monkeypatch.setattr(
        tracedir.shutil, "disk_usage", lambda path: usage(path)._replace(free=1 << 20 if path == full else 2 << 30)
    )
    path = create("a", [full, roomy], made)
    assert path.parent == roomy
    assert path.stat().st_mode & 0o777 == 0o700
    assert create("b", [full], made).parent == full


def test_a_name_that_is_taken_gives_another_directory(tmp_path, made):
    first = create("a", [tmp_path], made)
    second = create("a", [tmp_path], made)
    assert first != second
    assert second.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(OSError):
        tracedir.create("a", [tmp_path / "missing"])


def test_the_sweep_takes_only_what_nobody_holds(tmp_path, made):
    living = create("living", [tmp_path], made)
    dead, handle = tracedir.create("dead", [tmp_path])
    (dead / "trace.json").write_text("{}")
    os.close(handle)
    young = living.with_name(living.name.replace("living", "young"))
    young.mkdir()
    old = living.with_name(living.name.replace("living", "old"))
    old.mkdir()
    os.utime(old, (time.time() - 7200,) * 2)
    target = tmp_path / "precious"
    target.mkdir()
    link = living.with_name(living.name.replace("living", "link"))
    link.symlink_to(target)

    assert tracedir.sweep([tmp_path, tmp_path / "missing"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([living.name, young.name, link.name, "precious"])


def test_the_companion_holds_it_beside_the_service(tmp_path):
    path, service = tracedir.create("a", [tmp_path])
    companion = tracedir.hold(path)
    os.close(service)
    assert tracedir.sweep([tmp_path]) == 0
    os.close(companion)
    assert tracedir.sweep([tmp_path]) == 1


def test_where_it_may_lie_is_the_users_choice():
    assert tracedir.bases("/scratch") == [Path("/scratch")]
    assert tracedir.bases("")[0] == tracedir.SHM
