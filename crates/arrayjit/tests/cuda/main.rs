//! What `codegen-ptx` and `device-cuda` make together, on an NVIDIA GPU.
//!
//! On a machine without one every test is skipped, which is said; with `REQUIRE_CUDA=1` in the environment it fails.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing step fails the test")]

mod corpus; // every run of the corpus

#[path = "../gpu/accuracy.rs"]
mod accuracy; // operations, in units of the last place
#[path = "../gpu/digits.rs"]
mod digits; // the main job
#[path = "../gpu/random.rs"]
mod random; // routines drawn at random

#[path = "../../examples/digits/data.rs"]
mod data;
#[path = "../../examples/digits/network.rs"]
mod network;
#[path = "../../examples/digits/state.rs"]
mod state;
#[path = "../../examples/digits/streams.rs"]
mod streams;
#[path = "../../examples/digits/train.rs"]
mod train;

use std::sync::OnceLock;

use arrayjit::{Backend, Settings};
use codegen_core::Codegen;
use codegen_testkit::gpu::or_skip;
use device_runtime::Device;

/// The first GPU, and a codegen for it.
struct Gpu {
    device: Device,
    backend: Backend,
}

impl Gpu {
    fn codegen(&self) -> &dyn Codegen {
        self.backend.codegen()
    }
}

/// The device that tests share, or nothing on a machine without one.
fn gpu(test: &str) -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    let open = || backend(test).map(|backend| Gpu { device: backend.device().clone(), backend });
    match GPU.get_or_init(open) {
        Some(gpu) => Some(gpu),
        // The first test has said why.
        None => or_skip(test, Err("there is no NVIDIA GPU")),
    }
}

/// The backend, or nothing on such a machine.
fn backend(test: &str) -> Option<Backend> {
    let opened = Backend::open_with("cuda", Settings::default());
    match opened {
        Err(why) if std::env::var("REQUIRE_CUDA").is_ok_and(|value| value == "1") => {
            panic!("{test} cannot run, and REQUIRE_CUDA is set: {why}")
        }
        opened => or_skip(test, opened),
    }
}
