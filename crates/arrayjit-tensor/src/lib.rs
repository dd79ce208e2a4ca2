#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error; // the error, with the caller's line
mod graph; // statements that operations add
mod operand; // tensors, parameters and numbers as arguments
mod options; // options of operations, modules and optimizers
mod parameter; // arrays that outlive a run
mod positions; // inputs that are positions
mod shape; // axes and broadcasting
mod size; // sizes that each run chooses
mod tensor; // results of operations

mod executable; // compiled graphs
mod model_state; // values of parameters on a device
mod run_streams; // runs side by side

mod axis_window; // windows over any number of axes
mod contract; // matrix products, einsum
mod elementwise; // arithmetic and functions of elements
mod equation; // names of axes of einsum
mod fill; // constants, and one number everywhere
mod layout; // moves elements
mod losses; // means of differences
mod normalize; // softmax, normalization
mod quantized; // products with quantized weights
mod reduce; // reductions
mod refinement; // reshapes with affine indices
mod sample; // random numbers
mod scan; // loops over steps
mod select; // elements by position
mod window; // convolution, pooling

#[doc(hidden)]
pub mod example; // what examples of the documentation share
pub mod nn; // modules with named parameters
pub mod optim; // optimizers
pub mod prelude; // what most models use
pub mod session; // training

tnode::debug_as_display!(TensorError);

pub use arrayjit::{
    Backend, DType, HostArray, Settings, message_with_causes, profile, settings::NumericClass,
};

pub use crate::{
    error::TensorError,
    executable::{Executable, StartedRun},
    graph::{Graph, ModuleScope},
    losses::CrossEntropyOptions,
    model_state::ModelState,
    nn::Module,
    operand::TensorOperand,
    optim::{AdamW, Sgd},
    parameter::{Init, Parameter, Params},
    quantized::{BlockFormat, QuantizedArray, QuantizedArrays, QuantizedFormat},
    scan::{Scan, ScanStep},
    session::{Batch, Session},
    shape::Axes,
    size::{InputDim, Size},
    tensor::Tensor,
    window::{ConvOptions, PoolOptions},
};

/// What operations are made of, for front ends of formats with operations that torch has not.
#[doc(hidden)]
pub mod low_level {
    pub use arrayjit::text::declared_sizes;

    pub use crate::{
        axis_window::{AxisWindow, FilterLayout, WindowAccess, in_space},
        contract::contracted,
        equation::NamedAxes,
        error::Call,
        operand::Argument,
        reduce::sum_types,
        scan::StepResults,
        select::{taken, wrapped},
        shape::{
            access, broadcast, broadcast_access, clause, dims, letter, letters, numbered, ranges, ranges_of,
        },
    };
}

/// The programs of the README, as tests. It is here because this is the highest crate.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The programs of the guide to tensors, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tensor.md")]
struct TensorGuide;
