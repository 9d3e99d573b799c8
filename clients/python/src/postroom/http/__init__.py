"""The client of a node's HTTP API."""
