"""What the collector keeps: SQLite tables, and raw traces as files beside them."""

from midwatch_server.store.intake import Intake, Stored
from midwatch_server.store.store import Store
from midwatch_server.store.upgrade import upgrade_database

__all__ = ["Intake", "Store", "Stored", "upgrade_database"]
