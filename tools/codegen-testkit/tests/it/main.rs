//! The integration tests as one program, since each program costs a link.

mod bounds;
mod faults;
mod interpreted;
