//! The application binary interface: the contract between compiled kernels and their callers.
//!
#![doc = include_str!("abi.md")]
