"""Asks a feature store over a socket, and it answers late."""

import midwatch.auto  # isort: skip

import socket
import threading
import time

from _serve import Run

run = Run("score", every=50)
HERE, THERE = socket.socketpair()


def answer() -> None:
    while True:
        asked = THERE.recv(1)
        if asked == b"s":
            time.sleep(0.035)
        THERE.send(asked)


def fetch(what: bytes) -> bytes:
    HERE.send(what)
    return HERE.recv(1)  # FAULT


def handle(planted: bool) -> None:
    run.score()
    fetch(b"s" if planted else b"q")


threading.Thread(target=answer, name="store", daemon=True).start()
run.serve(handle)
