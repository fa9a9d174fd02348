"""What was lost, in words that need no knowledge of the agent's names."""

import re
from pathlib import Path

import midwatch
import pytest
from midwatch_client.render.losses import LOSSES, loss

AGENT = Path(midwatch.__file__).parent


@pytest.mark.parametrize(
    ("reason", "count", "text"),
    [
        ("spike_rate", 142, "142 spikes counted but not looked into: "),
        ("link_full", 1, "1 record lost, since the companion process does not keep up"),
        ("spool_full_samples", 2, "2 records of statistics given up, since the spool on disk is full"),
        ("frame_malformed_stats", 3, "3 records of kind stats lost, since "),
        ("of_a_newer_agent", 3, "3 records lost (of a newer agent)"),
    ],
)
def test_a_loss_is_a_sentence(reason, count, text):
    assert loss(reason, count).startswith(text)


def test_every_loss_that_the_agent_counts_has_its_words():
    text = "\n".join(file.read_text() for file in AGENT.rglob("*.py"))
    counted = set(re.findall(r'\bdrop\("(\w+)"', text)) | set(re.findall(r'"(link_(?!fds)\w+)"', text))
    counted |= set(re.findall(r'_last\(\w+, \w+, "(\w+)"', text))
    assert len(counted) > 20
    assert counted <= set(LOSSES)
    assert not [reason for reason in counted if "_" in loss(reason, 2).replace("MIDWATCH_", "").partition("(")[0]]
