"""Many windows while four threads run operators; some of them deep, some through the capped engine."""

import sys
from pathlib import Path

from common import Operators, ProfilerThread, done


def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) // 256


def main():
    light, deep, capped = (int(number) for number in sys.argv[1:4])
    states = {}
    with Operators(4) as operators:
        memory = [resident_mb()]
        for setting, number, is_deep in (("direct", light, False), ("direct", deep, True), ("capped", capped, False)):
            profiler = ProfilerThread(setting)
            answers = [
                profiler.window(0.001 if index else 0.02, deep=is_deep, read=index == 0) for index in range(number)
            ]
            states[f"{setting}{' deep' if is_deep else ''}"] = {
                "states": sorted({answer["state"] for answer in answers}),
                "windows": len(answers),
                "threads": answers[0]["threads"],
                "shapes": answers[0]["shapes"],
            }
            memory.append(resident_mb())
    states["rss_mb"] = memory
    states["rounds"] = operators.rounds
    done(states)


main()
