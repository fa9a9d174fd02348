"""The ranks of one job side by side: pure functions over what their traces say."""

from midwatch_server.diagnosis.ranks.compare import compare_ranks
from midwatch_server.diagnosis.ranks.document import ranks_document
from midwatch_server.diagnosis.ranks.values import Member, World

__all__ = ["Member", "World", "compare_ranks", "ranks_document"]
