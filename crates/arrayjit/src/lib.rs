//! Compile array assignments to machine code in milliseconds and run them on streams.
