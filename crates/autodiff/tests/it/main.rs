//! The integration tests. They are one program, because linking each program takes time.

mod accesses;

mod networks;
mod reductions;

mod support;
mod versions;
