//! Tests of graphs, modules and training.

mod operations;
