"""What an agent could not keep or send, in words: its counts come with short names that only the agent understands."""

from __future__ import annotations

from midwatch_server.diagnosis.words import plural

_SPOOL_FULL = (
    "given up, since the spool on disk is full (MIDWATCH_SPOOL_BYTES) and the collector did not take it in time"
)
_UNWRITABLE = "given up, since the spool on disk cannot be written (MIDWATCH_STATE_DIR) and memory for it ran out"
_MALFORMED = "frame_malformed_"

LOSSES: dict[str, tuple[str, str]] = {
    "spike_rate": (
        "spike",
        "counted but not looked into: of one route three at once are, then one every 10 s",
    ),
    "samples_of_one_window": ("stack sample", "left out of windows that had too many of them"),
    "samples_of_one_request": ("stack sample", "left out of requests that had too many of them"),
    "requests_of_one_window": ("request", "left out of windows that saw too many of them"),
    "too_many_in_flight": ("request", "not watched, since too many were in flight at once"),
    "finished_queue_full": ("request", "not counted, since requests ended faster than the agent takes them in"),
    "request_unended": ("request", "given up, since nothing ended them any more"),
    "unit_queue_full": ("model call", "not counted, since calls ended faster than the agent takes them in"),
    "unit_unclosed": ("model call", "given up, since an exception passed through it and nothing ended it"),
    "order_before_start": ("ordered window", "refused, since too many waited for the agent to start"),
    "capture_unsent": ("window", "lost, since the companion process did not take it"),
    "window_unread": ("window", "lost, since the process ended before its trace was read"),
    "trace_file_without_capture": ("trace file", "removed, since nothing was known of it any more"),
    "stop_timeout": ("end of the agent", "cut short, since it took too long; what was not handed over may be lost"),
    "link_off": ("record", "lost, since no companion process runs"),
    "link_full": ("record", "lost, since the companion process does not keep up"),
    "link_closed": ("record", "lost, since the companion process had ended"),
    "link_unread": ("record", "lost, since the companion process ended without reading it"),
    "link_too_large": ("record", "lost, since it was too large to hand over"),
    "link_unencodable": ("record", "lost, since it could not be written as JSON"),
    "link_spill_failed": ("record", "lost, since the trace folder did not take it (MIDWATCH_TRACE_DIR)"),
    "companion_lost": ("record", "lost with a companion process that died"),
    "companion_killed": ("companion process", "killed before it had handed over all that it held"),
    "rejected": ("record", "refused by the collector, which has the reason in its log"),
    "too_large": ("record", "too large for the collector"),
    "spool_corrupt": ("waiting batch", "put aside, since it cannot be read any more"),
    "spool_full_samples": ("record of statistics", _SPOOL_FULL),
    "spool_full_trace": ("piece of a raw trace", _SPOOL_FULL),
    "spool_full_evidence": ("record of spikes or windows", _SPOOL_FULL),
    "spool_unwritable_samples": ("record of statistics", _UNWRITABLE),
    "spool_unwritable_trace": ("piece of a raw trace", _UNWRITABLE),
    "spool_unwritable_evidence": ("record of spikes or windows", _UNWRITABLE),
}
"""By the agent's name for it: what was lost, and why."""


def loss(reason: str, count: int) -> str:
    """Return what ``count`` losses for ``reason`` are, without a full stop; of a newer agent's reason its name."""
    if reason.startswith(_MALFORMED):
        kind = reason.removeprefix(_MALFORMED)
        return f"{plural(count, 'record')} of kind {kind} lost, since the companion process could not understand it"
    noun, why = LOSSES.get(reason, ("record", f"lost ({reason.replace('_', ' ')})"))
    head, of, rest = noun.partition(" of ")
    return f"{plural(count, head)}{of}{rest} {why}"
