//! The integration tests. They are one program, because linking each program takes time.

mod accesses;
mod compiled;
mod errors;
mod listings;
mod networks;
mod reductions;
mod rules;
mod support;
mod versions;
