//! The integration tests that may share a process. They are one program, since each program has to be linked.

mod approximate;
mod attention;
mod common;
mod corpus;
mod goldens;
mod interpreted;
mod logs;
mod matmul;
mod row_programs;
mod rows;
mod shapes;
mod text;
mod tile_programs;
mod tiles;
mod transpose;
mod unsupported;
mod vectorized_access;
mod warp_reductions;
