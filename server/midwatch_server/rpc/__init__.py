"""The collector's gRPC services."""
