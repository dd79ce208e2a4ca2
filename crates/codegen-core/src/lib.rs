//! The contract between lowered IR, code generators and devices: capabilities, artifacts, ABI, legalisation, scheduling.
