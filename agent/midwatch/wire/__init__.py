"""The model on the wire: frozen values to protobuf messages and back."""
