//! The golden-file harness: runs .lir files through passes, interpreter and code generators.
