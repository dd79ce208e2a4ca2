//! The integration tests that may share a process. They are one program, because linking each program takes
//! time.

mod accumulations;
mod assignment_text;
mod assignment_text_doc;
mod assignment_text_errors;
mod assignment_text_random;
mod computed_index;
mod concat;
mod convolution;
mod declarations;
mod fetch;
mod function_errors;
mod functions;
mod intermediates;
mod listing;
mod lost_values;
mod lowering;
mod lowering_total;
mod margins;
mod mutated_programs;
mod number_types;
mod program;
mod random_fills;
mod same_meaning;
mod suggestions;
mod warnings;
