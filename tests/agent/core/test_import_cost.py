"""What `import midwatch.auto` loads: every module is time that a service waits for."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

# The standard library's dearer ones; a service may well have imported them itself, but need not wait for us to.
_DEAR = {"asyncio", "ctypes", "json", "pathlib", "platform", "socket", "subprocess", "tempfile", "urllib.parse"}
_OURS_BEHIND = {
    "midwatch.backroom",
    "midwatch.capture.controller",
    "midwatch.capture.torchapi",
    "midwatch.evidence",
    "midwatch.intake",
    "midwatch.integrations.asgi",
    "midwatch.link",
    "midwatch.model.order",
    "midwatch.model.plain",
    "midwatch.model.requests",
    "midwatch.model.resource",
    "midwatch.model.samples",
    "midwatch.model.status",
    "midwatch.model.trace",
    "midwatch.requests.generators",
    "midwatch.requests.handsoff",
    "midwatch.requests.hooks",
    "midwatch.watch.frames",
    "midwatch.watch.peek",
}


def test_the_import_loads_what_the_marks_need_and_no_more(tmp_path):
    script = """
import sys
before = set(sys.modules)
import midwatch.auto
after = set(sys.modules)
import json
print(json.dumps(sorted(after - before)))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "midwatch.agent" in loaded
    assert loaded & (_DEAR | _OURS_BEHIND) == set()
    standard = {*sys.stdlib_module_names}
    assert {name.partition(".")[0] for name in loaded} - standard == {"midwatch"}
