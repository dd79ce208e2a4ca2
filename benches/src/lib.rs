//! Benchmark cases: each checked before it is timed.
