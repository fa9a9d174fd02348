"""The gRPC server: limits, keep-alive, address."""

from __future__ import annotations

import ipaddress
import logging

import grpc

from midwatch_server.errors import StartError
from midwatch_server.rpc.gate import Gate

log = logging.getLogger("midwatch.collector")

MAX_RECEIVE_BYTES = 8 * 1024 * 1024
MAX_SEND_BYTES = 64 * 1024 * 1024
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
    ("grpc.max_send_message_length", MAX_SEND_BYTES),
    # Two collectors on one port would share the agents between them, without a word.
    ("grpc.so_reuseport", 0),
    # A machine that lost its power says no goodbye; its command stream must not stay for ever.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Agents may ping this often, calls or no calls, without being sent away for too many pings.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
]


def make_server() -> grpc.aio.Server:
    """Return a server with the collector's limits, and the gate before whatever services it will have."""
    return grpc.aio.server(interceptors=(Gate(),), options=OPTIONS)


def bind(server: grpc.aio.Server, address: str) -> str:
    """Listen on ``host:port`` and return the address with the port taken. Raises `StartError`."""
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise StartError(f"{address} is no address; give --grpc as host:port, such as 127.0.0.1:7171.")
    try:
        taken = server.add_insecure_port(address)
    except RuntimeError as error:
        raise StartError(
            f"Cannot listen on {address}: it is in use, or is no address of this machine; choose another with --grpc."
        ) from error
    if not is_loopback(host):
        log.warning(
            "listening on %s:%d without authentication: whoever reaches it can read, write and order windows; "
            "keep it inside a trusted network",
            host,
            taken,
        )
    return f"{host}:{taken}"


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches ``host``."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
