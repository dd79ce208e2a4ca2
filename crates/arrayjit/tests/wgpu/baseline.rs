//! Operations are expanded to the types that every WebGPU device has; computations in `f64` have separate
//! expansions.

use codegen_wgsl::{WgslOptions, baseline_caps, wgsl};

use crate::{accuracy::measure, gpu};

#[test]
fn operations_without_wide_types_are_as_accurate() {
    let Some(gpu) = gpu("operations_without_wide_types_are_as_accurate") else { return };
    let codegen = wgsl(baseline_caps(), WgslOptions::default());
    measure("with the types of every device", &codegen, &gpu.device);
}
