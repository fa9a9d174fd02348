"""From facts to findings: pure rules, one a file."""

from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.judge import diagnose
from midwatch_server.diagnosis.report import Report, document, documents

__all__ = ["Evidence", "Report", "diagnose", "document", "documents"]
