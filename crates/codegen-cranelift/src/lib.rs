//! Compiles scheduled IR to host machine code through Cranelift.
