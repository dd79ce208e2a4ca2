//! The integration tests as one program, since each program costs a link.

mod carried;
mod compile_steps;
mod corpus;
mod depth;
mod document;
mod generator;
mod random_passes;
mod random_programs;
mod reduce;
