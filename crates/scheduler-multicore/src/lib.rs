//! The CPU device: a worker thread per stream, and its inline twin.
