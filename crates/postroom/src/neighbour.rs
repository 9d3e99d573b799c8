//! Peers that do not speak our own wire: CloudEvents and the signatures of well-known webhooks. No I/O.
