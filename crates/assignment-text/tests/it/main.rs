//! The integration tests that may share a process. They are one program, because linking each program takes
//! time.

#[path = "../../../lowered-ir/tests/accuracy/distance.rs"]
mod distance;
#[path = "../../../assignments/tests/it/error_table.rs"]
mod error_table;
#[path = "../../../assignments/tests/it/program/mod.rs"]
mod program;
#[allow(dead_code, reason = "the sweep of the operations has more functions")]
#[path = "../../../lowered-ir/tests/accuracy/reference.rs"]
mod reference;

mod assignment_text;
mod assignment_text_doc;
mod assignment_text_errors;
mod computed_index;
mod concat;
mod declarations;
mod fetch;
mod function_errors;
mod functions;
mod gradients;
mod guide;
mod intermediates;
mod mutated_programs;
mod number_types;
mod prelude;
mod random_fills;
mod same_meaning;
mod suggestions;
mod unparse;
mod views;
mod warnings;
