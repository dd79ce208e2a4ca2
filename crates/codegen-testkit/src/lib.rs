//! The conformance kit: runs the .lir corpus for one code generator and driver.
