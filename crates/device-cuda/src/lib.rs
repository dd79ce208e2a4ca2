//! NVIDIA's processors as a device of the runtime.
