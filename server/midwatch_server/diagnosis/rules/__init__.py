"""The rules, one kind a file."""

from midwatch_server.diagnosis.rules.alloc_thrash import AllocThrash
from midwatch_server.diagnosis.rules.base import Rule
from midwatch_server.diagnosis.rules.collective_wait import CollectiveWait
from midwatch_server.diagnosis.rules.data_stall import DataStall
from midwatch_server.diagnosis.rules.first_call import FirstCall
from midwatch_server.diagnosis.rules.gc_pause import GcPause
from midwatch_server.diagnosis.rules.graph_break import GraphBreak
from midwatch_server.diagnosis.rules.held import Held
from midwatch_server.diagnosis.rules.host_gap import HostGap
from midwatch_server.diagnosis.rules.hot_sync import HotSync
from midwatch_server.diagnosis.rules.kernel_bound import KernelBound
from midwatch_server.diagnosis.rules.launch_bound import LaunchBound
from midwatch_server.diagnosis.rules.lock_wait import LockWait
from midwatch_server.diagnosis.rules.recompile import Recompile
from midwatch_server.diagnosis.rules.transfer_bound import TransferBound

__all__ = [
    "AllocThrash",
    "CollectiveWait",
    "DataStall",
    "FirstCall",
    "GcPause",
    "GraphBreak",
    "Held",
    "HostGap",
    "HotSync",
    "KernelBound",
    "LaunchBound",
    "LockWait",
    "Recompile",
    "Rule",
    "TransferBound",
]
