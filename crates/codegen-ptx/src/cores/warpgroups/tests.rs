//! Products by warpgroups, run and assembled.

use codegen_testkit::{assembler::CudaTools, gpu};
use ptx_asm::{Module, Target, print};

use super::tile::TILES;
use crate::cores::Method;
use crate::cores::plain::{kernel, product};

#[test]
fn every_tile_assembles_without_spills() {
    let Some(tools) = gpu::or_skip("every_tile_assembles_without_spills", CudaTools::find()) else {
        return;
    };
    for (tile, _) in TILES {
        for contiguous in [[true, true], [true, false], [false, true], [false, false]] {
            let product = product([4096, 4096, 4096], contiguous);
            let module = Module {
                target: Target::Sm90a,
                kernels: vec![kernel(&product, &Method::Warpgroups(tile), true)],
            };
            ptx_asm::check(&module).unwrap_or_else(|error| panic!("{error}"));
            let text = print(&module);
            std::fs::write("/tmp/p.ptx", &text).unwrap();
            let made = tools.assemble(&text, "sm_90a").unwrap_or_else(|said| panic!("{said}"));
            let made = &made["product"];
            let what = format!("{tile:?} {contiguous:?}: {made:?}");
            println!("{what}");
            assert_eq!((made.spilled_bytes, made.stack_bytes), (0, 0), "{what}");
        }
    }
}
