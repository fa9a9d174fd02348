"""The model on the wire: values to the messages of ``midwatch.v1`` and back."""

from midwatch.wire.codec import dump, from_message, load, to_message

__all__ = ["dump", "from_message", "load", "to_message"]
