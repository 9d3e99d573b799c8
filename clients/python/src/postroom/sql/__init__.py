"""Enqueueing with SQL, in the caller's own transaction."""
