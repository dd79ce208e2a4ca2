//! The integration tests that may share a process. They are one program, because linking each program takes
//! time.

mod expand_powers;
mod gather_one_hot;
mod half_constants;
mod independence;
mod interp;
mod operations;
mod passes;
mod random_values;
mod routines;
mod text;
mod verify;
mod virtualize;
