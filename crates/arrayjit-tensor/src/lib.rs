//! Tensors, modules and training on arrayjit: models in ordinary Rust, compiled as whole steps.
//!
//! # Should I be using this crate?
//!
//! Use it to write models as you would with torch, burn or candle: tensors with operations, modules with
//! named parameters, a training loop. To write computations in index notation, use `arrayjit`; both can be
//! mixed, since [`Graph::apply`] takes assignment text.
//!
//! [`nn`] has modules, [`optim`] optimisers, and [`session`] the training loop. `docs/tensor.md` in the
//! repository is a guide, which starts from the words of torch, burn and candle.
//!
//! # Example
//!
//! ```
//! use arrayjit_tensor::{Backend, DType, Graph, HostArray, Init, Params, Weights};
//!
//! let params = Params::new(42);
//! let weight = params.parameter("weight", [10, 784], Init::kaiming_uniform(784, 1.0))?;
//! let bias = params.parameter("bias", [10], Init::ZEROS)?;
//!
//! let graph = Graph::new();
//! let x = graph.input("x", [32, 784], DType::F32)?;
//! let y = (x.einsum("n i, o i -> n o", &weight)? + &bias)?.relu()?;
//! assert_eq!(y.shape(), [32, 10]);
//!
//! let weights = Weights::new(&Backend::open("multicore")?, &params)?;
//! let model = graph.compile(&weights, &[&y])?;
//! let images = HostArray::zeros(DType::F32, [32, 784])?;
//! let results = model.run(&[("x", &images)])?;
//! assert_eq!(results[0].values(), [0.; 320]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! A [`Graph`] is one step of a model for one set of shapes. Each operation on its tensors adds a statement
//! in index notation, checks shapes and types at once, and returns the result; an error has the caller's
//! line and the path of the module. [`Graph::gradients`] differentiates the statements, and
//! [`Graph::compile`] makes one routine of them: intermediates have no memory where they can be computed in
//! place. [`Params`] names the parameters of a model, and [`Weights`] has their values on a device.
//!
//! [`session`] trains a model: it adds the updates of [`optim`] to the graph, compiles the step once for each
//! set of shapes, and feeds it batches from another thread.
//!
//! # Promises
//!
//! * Names and meanings are torch's where torch has the operation; the documentation says where they differ.
//! * Initial values and random numbers are the same on every machine and backend.
//! * Wrong shapes, types, names and files are typed errors; nothing panics.
//!
//! # Features
//!
//! Each adds the backends of the feature of `arrayjit` with the same name.
//!
//! * `cranelift` (default): native code for this processor.
//! * `wgpu`: GPUs, through Vulkan, Metal or Direct3D 12.
//! * `cuda`: NVIDIA's GPUs.
#![forbid(unsafe_code)]

mod error; // errors with the caller's line
mod graph; // statements that operations add
mod operand; // tensors, parameters and numbers as arguments
mod parameter; // arrays that outlive a run
mod shape; // axes and broadcasting
mod tensor; // results of operations

mod executable; // compiled graphs
mod run_error; // errors of running models
mod weights; // values of parameters on a device

mod contract; // matrix products, einsum
mod elementwise; // arithmetic and functions of elements
mod layout; // moves elements
mod normalise; // softmax, normalisation, losses
mod reduce; // reductions
mod refinement; // reshapes with affine indices
mod sample; // random numbers
mod select; // elements by position
mod window; // convolution, pooling

pub mod nn; // modules with named parameters
pub mod optim; // optimisers
pub mod session; // training

tnode::debug_as_display!(
    ModelError,
    TensorError,
    TensorErrorKind,
    session::CheckpointProblem,
    session::SessionError,
);

pub use arrayjit::{Backend, DType, HostArray, Settings, profile};

pub use crate::{
    error::{TensorError, TensorErrorKind},
    executable::Executable,
    graph::{Graph, ModuleScope},
    operand::TensorOperand,
    parameter::{Init, Parameter, Params},
    run_error::ModelError,
    shape::Axes,
    tensor::Tensor,
    weights::Weights,
    window::WindowOptions,
};

/// The programs of the README, as tests. It is here because this is the highest crate.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The programs of the guide to tensors, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tensor.md")]
struct TensorGuide;
