"""What a request worked on; apart from the requests themselves, since a service imports it at its start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """What a request or unit worked on, noted by itself from the root module's tensor arguments.

    ``inputs`` holds one text an argument, ``float32[8,128]@cuda:0``. ``notes`` come from `midwatch.note`.
    """

    inputs: tuple[str, ...] = ()
    batch: int = 0
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The shape class: equal for requests whose inputs have equal shapes, dtypes and devices."""
        return ";".join(self.inputs)
