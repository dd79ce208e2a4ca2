//! The integration tests that may share a process. They are one program, because linking each program takes
//! time.

#[path = "../../../lowered-ir/tests/accuracy/distance.rs"]
mod distance;
#[allow(dead_code, reason = "the sweep of the operations has more functions")]
#[path = "../../../lowered-ir/tests/accuracy/reference.rs"]
mod reference;

mod accumulations;
mod assignment_text;
mod assignment_text_doc;
mod assignment_text_errors;
mod assignment_text_random;
mod computed_index;
mod concat;
mod convolution;
mod declarations;
mod einsum_errors;
mod error_table;
mod fetch;
mod function_errors;
mod functions;
mod gradients;
mod guide;
mod intermediates;
mod listing;
mod loop_bounds;
mod lost_values;
mod lowering;
mod lowering_total;
mod margins;
mod mutated_programs;
mod number_types;
mod prelude;
mod program;
mod random_fills;
mod same_meaning;
mod suggestions;
mod to_text;
mod views;
mod warnings;
