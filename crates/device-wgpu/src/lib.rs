//! GPUs through wgpu, as a [`device_runtime::Driver`].
#![deny(unsafe_code)]
