"""Enters a phase of a window and dies in it. No torch: the latch alone."""

import ctypes
import faulthandler
import os
import signal
import sys
import time

from midwatch.capture.latch import Latch, Phase


def main():
    folder, phase, end = sys.argv[1:4]
    faulthandler.enable()  # the host's own handler must still get its turn
    latch = Latch(folder, "shop", "2.13.0", "direct")
    latch.enter(Phase.OPEN)
    latch.enter(Phase[phase])
    if end == "fault":
        ctypes.string_at(0)
    elif end == "child-lives":
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif end == "fault-after":
        latch.clear()
        ctypes.string_at(0)
    elif end == "stay":
        print("in", flush=True)
        time.sleep(20)
    elif end != "exit":
        os.kill(os.getpid(), getattr(signal, end))


main()
