//! The conformance kit.

codegen_testkit::conformance!(the_fourth_level, codegen_c::codegen, level = L4);
