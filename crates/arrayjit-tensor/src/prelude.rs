//! What most models use, in one line.
//!
//! ```
//! use arrayjit_tensor::prelude::*;
//!
//! let params = Params::new(42);
//! let layer = nn::Linear::new(&params.sub("layer"), 2, 1)?;
//! let weights = ModelState::new(&Backend::open("multicore")?, &params)?;
//! let mut session = Session::new(&weights, AdamW::new(0.1), move |batch: &Batch| {
//!     layer.forward(&batch.input("x")?)?.sub(&batch.input("y")?)?.square()?.mean(..)
//! })?;
//! let x = HostArray::from_slice(&[0f32, 0.0, 1.0, 0.0], [2, 2])?;
//! let y = HostArray::from_slice(&[1f32, 3.0], [2, 1])?;
//! let loss = session.step(&[("x", &x), ("y", &y)])?.metrics()?.loss();
//! assert!(loss > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::{
    AdamW, Backend, Batch, DType, Executable, Graph, HostArray, Init, ModelState, Module, Parameter, Params,
    Session, Sgd, Tensor, TensorError, nn,
};
