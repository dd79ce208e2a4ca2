//! The tests of the driver as one program, since each program costs a link.

mod driver;
mod lost;
mod no_adapter;
mod suite;
mod support;
