"""Workers that fetch their messages from a node."""
