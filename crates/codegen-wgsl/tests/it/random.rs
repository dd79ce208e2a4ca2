//! Random routines render as valid text or are unsupported; none fails or panics. Kernels with many
//! parameters are tested as well.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common;

use codegen_core::{Codegen, CodegenError, Payload};
use codegen_wgsl::{WgslOptions, baseline_caps, wgsl};
use scheduling::{ScheduleOptions, schedule};

#[test]
fn many_parameters_in_one_slab_take_one_binding() {
    let nodes: String = (0..20).map(|n| format!("node %{n} \"x\" f32[4] on_device\n")).collect();
    let sum: Vec<String> = (1..20).map(|n| format!("%{n}[i0]")).collect();
    let text = format!(
        "routine @many strict {{ {nodes} for i0 in 0..4 parallel {{ %0[i0] := {} }} }}",
        sum.join(" + ")
    );
    let routine = lowered_ir::text::parse(&text).unwrap();
    let codegen = wgsl(baseline_caps(), WgslOptions::default());
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).unwrap();
    let artifact = codegen.compile(&scheduled).unwrap();
    let Payload::Shader(shaders) = artifact.payload() else { panic!("shaders") };
    let shader = shaders.shader(0, &[0; 20]).unwrap();
    assert_eq!(shader.wgsl.matches("var<storage").count(), 1);
    assert_eq!(shader.table_words, 20);
    let eight: Vec<u32> = (0..20).map(|i| i % 8).collect();
    assert_eq!(shaders.shader(0, &eight).unwrap().wgsl.matches("var<storage").count(), 8);
    assert!(shaders.shader(1, &eight).is_err());
}

#[test]
fn random_routines_are_rendered_or_unsupported() {
    let (mut rendered, mut unsupported) = (0, 0);
    for caps in [baseline_caps(), common::full_caps()] {
        let codegen = wgsl(caps.clone(), WgslOptions::default());
        for seed in filetests::effort::seeds(38) {
            let routine = filetests::generate::routine_from_seed(seed, 1024);
            let Ok(scheduled) = schedule(&routine, &codegen, &ScheduleOptions::default()) else { continue };
            match codegen.compile(&scheduled) {
                Ok(artifact) => {
                    rendered += 1;
                    let Payload::Shader(shaders) = artifact.payload() else { panic!("shaders") };
                    for (at, kernel) in artifact.kernels().iter().enumerate() {
                        let slabs: Vec<u32> = (0..common::memory_params(kernel) as u32).collect();
                        let shader = shaders.shader(at, &slabs).unwrap();
                        common::parse_back(&shader.wgsl, &caps).unwrap();
                    }
                }
                Err(CodegenError::Unsupported { .. }) => unsupported += 1,
                Err(error) => panic!("{error}\n{}", lowered_ir::text::print(&routine)),
            }
        }
    }
    assert!(rendered > 15, "{rendered} rendered, {unsupported} unsupported");
}
