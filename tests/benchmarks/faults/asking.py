"""The client of several HTTP services: asks one for a while, then the next, in random order; each once.

Requests are due at even distances, whatever became of the ones before, and a latency counts from when its request was
due. One line of JSON comes out: for each port, in the order given, its latencies in milliseconds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import time


def ask(port: int, seconds: float, rate: float) -> list[float]:
    """Ask one service, and return its latencies in milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    seen: list[float] = []
    due_ns, apart_ns = time.perf_counter_ns(), int(1e9 / rate)
    for _ in range(round(seconds * rate)):
        due_ns += apart_ns
        time.sleep(max(0, due_ns - time.perf_counter_ns()) / 1e9)
        connection.request("GET", "/rank")
        connection.getresponse().read()
        seen.append(round((time.perf_counter_ns() - due_ns) / 1e6, 4))
    connection.close()
    return seen


def main() -> None:
    """Ask them all, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, required=True, help="for each service")
    parser.add_argument("--rate", type=float, required=True, help="requests a second")
    parser.add_argument("ports", type=int, nargs="+")
    given = parser.parse_args()
    order = random.sample(given.ports, len(given.ports))
    seen = {port: ask(port, given.seconds, given.rate) for port in order}
    print(json.dumps([seen[port] for port in given.ports]))


if __name__ == "__main__":
    main()
