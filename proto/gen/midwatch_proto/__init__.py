"""Python stubs of the contract in ``proto/midwatch/v1``, made by ``proto/generate.py``; not written by hand."""
