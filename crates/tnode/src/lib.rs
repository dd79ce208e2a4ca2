//! Tensor nodes: identity, element type, dimensions, padding, memory mode, sharing; host arrays.
