"""From findings to incidents: what counts as the same trouble, and what as one sighting of it."""

from midwatch_server.incidents.fingerprint import fingerprint, incident_id
from midwatch_server.incidents.sighting import Sighting, better, of_capture, of_spike

__all__ = ["Sighting", "better", "fingerprint", "incident_id", "of_capture", "of_spike"]
