"""What a companion's heir makes of its note."""

import pytest
from midwatch.companion.progress import Progress


@pytest.fixture
def lost():
    return []


@pytest.fixture
def make(tmp_path, lost):
    return lambda folder=tmp_path: Progress(folder, lost.append)


def test_what_was_held_in_memory_and_what_was_read_in_vain_are_lost(make, lost):
    first = make()
    for number, held in ((1, 0), (2, 1), (3, 4)):
        first.got(number)
        first.keep(held)
    first.got(4)  # and died with it in hand
    assert lost == []
    heir = make()
    assert lost == [4]
    heir.got(7)
    assert lost == [4, 3]
    heir.got(8)
    heir.keep(0)
    make().got(9)
    assert lost == [4, 3]


def test_a_number_that_comes_late_is_no_loss(make, lost):
    progress = make()
    for number in (1, 3, 2, 4):
        progress.got(number)
    assert lost == [1]


@pytest.mark.parametrize("text", ["", "x y", "1", "1 2 3"])
def test_a_note_that_makes_no_sense_is_none(make, lost, tmp_path, text):
    (tmp_path / "progress").write_text(text)
    make().got(1)
    assert lost == []


def test_without_a_folder_nothing_is_noted_and_nothing_claimed(make, lost, tmp_path):
    progress = make(tmp_path / "nowhere")
    progress.got(5)
    progress.keep(1)
    assert lost == []
    assert not (tmp_path / "nowhere").exists()
