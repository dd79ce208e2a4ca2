//! Element types that are settled late.
//!
//! A node starts with a default, an inference or a specification, which stays open until the type is needed.
//! Specifications override inferences, inferences override defaults, and two inferences promote.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;
use crate::node::TensorNode;

/// An element type that has not been needed yet.
#[derive(Clone)]
pub enum DelayedDType {
    /// The type of the node unless another one is inferred or specified.
    Default(DType),
    /// Computed from the types of other nodes.
    Inferred(Inference),
    /// Requested by the user.
    Specified(DType),
}

/// A function that computes an element type when it is needed.
#[derive(Clone)]
pub struct Inference(Arc<dyn Fn() -> DType + Send + Sync>);

impl Inference {
    /// The type that `infer` returns.
    pub fn new(infer: impl Fn() -> DType + Send + Sync + 'static) -> Inference {
        Inference(Arc::new(infer))
    }

    /// Runs the function.
    pub fn get(&self) -> DType {
        (self.0)()
    }

    /// Returns the inference of the type to which both types promote.
    pub fn promote(self, other: Inference) -> Inference {
        Inference::new(move || self.get().promote(other.get()))
    }
}

impl DelayedDType {
    /// The type as far as it is known; runs the inference.
    pub fn get(&self) -> DType {
        match self {
            DelayedDType::Default(dtype) | DelayedDType::Specified(dtype) => *dtype,
            DelayedDType::Inferred(inference) => inference.get(),
        }
    }

    /// Adds an inference.
    pub(crate) fn infer(self, inference: Inference) -> DelayedDType {
        match self {
            DelayedDType::Default(_) => DelayedDType::Inferred(inference),
            DelayedDType::Inferred(first) => DelayedDType::Inferred(first.promote(inference)),
            DelayedDType::Specified(dtype) => DelayedDType::Specified(dtype),
        }
    }

    /// Specifies `dtype`; a different specification is returned as the error.
    pub(crate) fn specify(self, dtype: DType) -> Result<DelayedDType, DType> {
        match self {
            DelayedDType::Specified(present) if present != dtype => Err(present),
            _ => Ok(DelayedDType::Specified(dtype)),
        }
    }

    /// Specifies `dtype`, if the type known so far satisfies `only_if`; an earlier specification that differs
    /// is returned as the error.
    pub(crate) fn specify_if(
        self,
        dtype: DType,
        only_if: impl Fn(DType) -> bool + Send + Sync + 'static,
    ) -> Result<DelayedDType, DType> {
        match self {
            DelayedDType::Specified(present) if present != dtype && only_if(present) => Err(present),
            DelayedDType::Specified(present) => Ok(DelayedDType::Specified(present)),
            DelayedDType::Default(present) if only_if(present) => Ok(DelayedDType::Specified(dtype)),
            DelayedDType::Default(present) => Ok(DelayedDType::Default(present)),
            DelayedDType::Inferred(inference) => Ok(DelayedDType::Inferred(Inference::new(move || {
                let present = inference.get();
                if only_if(present) { dtype } else { present }
            }))),
        }
    }
}

thread_local! {
    /// The nodes whose types this thread is inferring, outermost first.
    static INFERRING: RefCell<Vec<TensorNode>> = const { RefCell::new(Vec::new()) };
}

/// The result of `infer`, or `None` if this thread is inferring the type of `node` already.
pub(crate) fn once_per_thread(node: &TensorNode, infer: impl FnOnce() -> DType) -> Option<DType> {
    if INFERRING.with_borrow(|nodes| nodes.contains(node)) {
        return None;
    }
    INFERRING.with_borrow_mut(|nodes| nodes.push(node.clone()));
    let _pop = PopOnDrop;
    Some(infer())
}

/// Ends the innermost inference, also when it panics.
struct PopOnDrop;

impl Drop for PopOnDrop {
    fn drop(&mut self) {
        // The node is dropped after the borrow has ended, since dropping it may run foreign code.
        let _node = INFERRING.with_borrow_mut(Vec::pop);
    }
}

/// `f32` if the type is specified, `f32?` if it is the default, `?` if it will be inferred.
impl fmt::Display for DelayedDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DelayedDType::Default(dtype) => write!(f, "{dtype}?"),
            DelayedDType::Inferred(_) => f.write_str("?"),
            DelayedDType::Specified(dtype) => write!(f, "{dtype}"),
        }
    }
}

impl fmt::Debug for DelayedDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DelayedDType::Default(dtype) => write!(f, "Default({dtype})"),
            DelayedDType::Inferred(_) => f.write_str("Inferred(..)"),
            DelayedDType::Specified(dtype) => write!(f, "Specified({dtype})"),
        }
    }
}
