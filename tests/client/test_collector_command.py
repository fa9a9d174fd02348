"""`midwatch collector`, where it cannot start."""

import socket
import subprocess
import sys


def test_a_port_that_is_taken_is_said_in_one_sentence_and_by_nobody_else(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = subprocess.run(
            [sys.executable, "-m", "midwatch_client", "collector", "--db", str(tmp_path / "c.db"), "--grpc", address],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    (said,) = [line for line in (ended.stdout + ended.stderr).splitlines() if " INFO " not in line]
    assert said.startswith(f"midwatch: Cannot listen on {address}: it is in use, or is no address of this machine;")
    assert said.endswith("choose another with --grpc.")
