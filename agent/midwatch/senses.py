"""The sensors of this process: started one by one, so that one that fails is off alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from midwatch.guard import guard
from midwatch.model.status import Part


class Sensor(Protocol):
    """One sensor. `tick` is called on the agent's background thread, the other methods on any."""

    name: str
    period_s: float
    """How often it wants to be ticked, in seconds; 0.0 for never."""

    def start(self) -> None:
        """Begin. Something that is not there is no error: `status` says so."""
        ...

    def stop(self) -> None:
        """End, and leave no trace."""
        ...

    def status(self) -> Part:
        """Say in one line whether it works, and why not."""
        ...

    def tick(self, now_ns: int) -> None:
        """Look; ``now_ns`` is the monotonic time."""
        ...


class SensorRack:
    """Starts, stops and asks all sensors."""

    def __init__(self, sensors: Sequence[Sensor]) -> None:
        self._sensors = sensors
        self._on: list[Sensor] = []
        self._failed: dict[str, str] = {}

    def start(self) -> None:
        """Start all."""
        for sensor in self._sensors:
            self._start(sensor)

    def stop(self) -> None:
        """Stop those that were started, the latest first."""
        while self._on:
            sensor = self._on.pop()
            guard.call(f"sensor.{sensor.name}", sensor.stop, default=None)

    def ticking(self) -> list[Sensor]:
        """Return those that were started and want to be ticked."""
        return [sensor for sensor in self._on if sensor.period_s > 0]

    def status(self) -> list[Part]:
        """Return a part for each."""
        return [
            Part(sensor.name, "failed", self._failed[sensor.name]) if sensor.name in self._failed else sensor.status()
            for sensor in self._sensors
        ]

    def _start(self, sensor: Sensor) -> None:
        try:
            sensor.start()
            self._on.append(sensor)
        except Exception as error:
            self._failed[sensor.name] = f"could not be started: {error}"
            guard.failed(f"sensor.{sensor.name}", error)
