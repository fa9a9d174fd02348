"""What changed between two captures: pure functions over two reports."""

from midwatch_server.diagnosis.diff.compare import compare
from midwatch_server.diagnosis.diff.document import diff_document
from midwatch_server.diagnosis.diff.values import Diff

__all__ = ["Diff", "compare", "diff_document"]
