"""What can go wrong in a collector; every text is one sentence for people, with the remedy where there is one."""

from __future__ import annotations


class StartError(Exception):
    """The collector cannot start."""


class StoreUnavailableError(Exception):
    """The store cannot take or give anything just now (disk full, database locked); the same may work later."""


class BatchRejectedError(Exception):
    """A batch cannot be stored, now or ever."""


class RecordRejectedError(Exception):
    """A record of a batch cannot be stored, now or ever."""


class TooLongError(Exception):
    """An id is longer than any of ours."""


class FigureError(Exception):
    """A figure that cannot be true, or a list without end."""


class NotFoundError(Exception):
    """There is nothing of that name."""


class BadRequestError(Exception):
    """A question that has no answer as it stands."""
