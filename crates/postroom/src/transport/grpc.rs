//! gRPC, both ends.
