//! `codegen-ptx` and `device-cuda` together, on an NVIDIA GPU.
//!
//! On a machine without one every test is skipped and prints a line; with `REQUIRE_CUDA=1` in the environment
//! it fails.
#![allow(clippy::result_large_err, reason = "the backend's errors, which nobody here keeps")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing step fails the test")]

mod approximate; // errors of approximate functions
mod backend; // opening the backend, by itself
mod corpus; // every run of the corpus
mod logs; // logs of routines
mod products; // layouts of matmuls on tensor cores

#[path = "../gpu/accuracy.rs"]
mod accuracy; // operations, in units of the last place
#[path = "../gpu/digits.rs"]
mod digits; // training of the digits example
#[path = "../gpu/gradients.rs"]
mod gradients; // gradients of random programs
#[path = "../gpu/random.rs"]
mod random; // random routines

use std::{fmt::Display, io::Write as _, sync::OnceLock};

use arrayjit::{Backend, OpenError, Settings};
use codegen_core::Codegen;
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

/// The device that tests share; `None` on a machine without one.
fn gpu(test: &str) -> Option<&'static Gpu> {
    static GPU: OnceLock<Result<Gpu, OpenError>> = OnceLock::new();
    let open = || open().map(|backend| Gpu { device: backend.device().clone(), backend });
    or_skip(test, GPU.get_or_init(open).as_ref())
}

/// The backend; `None` on a machine without a GPU.
fn backend(test: &str) -> Option<Backend> {
    or_skip(test, open())
}

fn open() -> Result<Backend, OpenError> {
    Backend::open_with("cuda", &Settings::default())
}

/// Returns the value, or prints a line and returns `None`. `REQUIRE_GPU_TOOLS` has no effect here, because no
/// installable tool replaces a GPU.
fn or_skip<T, E: Display>(test: &str, opened: Result<T, E>) -> Option<T> {
    let required = std::env::var("REQUIRE_CUDA").is_ok_and(|value| value == "1");
    match opened {
        Ok(there) => Some(there),
        Err(why) if required => panic!("{test} cannot run, and REQUIRE_CUDA is set: {why}"),
        Err(why) => {
            // Standard error bypasses the harness's capture of output; the line is for people, so a failure
            // to print it does not fail the test.
            let _ = std::io::stderr().write_all(format!("skip({test}): {why}\n").as_bytes());
            None
        }
    }
}
