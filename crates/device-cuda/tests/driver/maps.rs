//! Tensor maps and clusters: the parameters of a kernel, and errors that are found before the driver is
//! called.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::slice::from_ref;

use crate::support::*;
use codegen_core::{Access, TensorMap, TileSwizzle};
use device_cuda::CudaConfig;
use device_runtime::{BoundKernel, DriverError, Location, PoolId};
use tnode::DType;

/// A map of 8 lines of 32 elements, with tiles of 4 lines of 16 elements.
fn map() -> TensorMap {
    TensorMap {
        param: 1,
        offset: 0,
        dtype: DType::F32,
        sizes: vec![32, 8],
        strides: vec![128],
        tile: vec![16, 4],
        swizzle: TileSwizzle::Bytes64,
    }
}

/// A kernel that copies the first word of its map's memory, and the value of its static index, into the first
/// parameter.
fn copy(map: TensorMap) -> Kernel {
    let body = "ld.param.u64 %d29, [map0];\nld.global.u32 %r4, [%d29];\n".to_owned();
    let body = body + &write(0, "0", "%r4") + &write(0, "1", "%r10");
    let params = [(Access::Write, 8), (Access::Read, 1024)];
    Kernel::new("copy", &params, 1, &body).with_symbols(1).with_map(map)
}

fn bind(driver: &Direct, kernel: Kernel, args: &[Location]) -> Result<BoundKernel, DriverError> {
    let module = driver.load(&artifact(&[kernel]))?;
    driver.bind(&module.kernel(0).unwrap(), args)
}

/// The maps of a kernel come after all its other parameters, are aligned, and refer to the memory to which
/// the kernel is bound.
#[test]
fn a_kernel_gets_its_maps_behind_all_else() {
    let notes = on_fake("", || {
        let device = device(&open(&CudaConfig::default()));
        let (x, y) = (node("x", 256), node("y", 2));
        let counted: Vec<i32> = (0..256).collect();
        let context = context(&device).init_from_host(&x, array(&counted)).unwrap();
        let first = TensorMap { offset: 256, sizes: vec![32, 6], ..map() };
        let second = TensorMap { dtype: DType::Bf16, tile: vec![64, 256], ..map() };
        let second = TensorMap { offset: 128, sizes: vec![64, 7], swizzle: TileSwizzle::Bytes128, ..second };
        let kernel = copy(first).with_map(second);
        let call = codegen_core::KernelCall {
            kernel: 0,
            args: [1, 0].map(|at| codegen_core::Slot::Node(lowered_ir::ir::NodeRef(at))).into(),
            bindings: vec![codegen_core::Binding::Symbol(lowered_ir::ir::SymbolId(0))],
        };
        let nodes = [x, y.clone()];
        let code = many_kernels("r", &nodes, &[symbol("i", 100)], artifact(&[kernel]), vec![call], vec![]);
        let routine = context.link(&code, &nodes).unwrap();
        for i in 0..3 {
            drop(routine.run(&[i]).unwrap());
            assert_eq!(values(routine.context(), &y), [64, i as i32]);
        }
    });
    let Some(notes) = notes else { return };
    assert_eq!(notes.count("map "), 2, "once per link, not per launch");
    assert_eq!(notes.count("map 7 [32, 6] [128] [16, 4] [1, 1] 2 3"), 1);
    assert_eq!(notes.count("map 9 [64, 7] [128] [64, 256] [1, 1] 3 3"), 1);
}

#[test]
fn every_element_type_of_tma() {
    let types = [
        (DType::Bool, 0),
        (DType::U8, 0),
        (DType::I8, 0),
        (DType::U16, 1),
        (DType::I32, 3),
        (DType::U32, 2),
        (DType::I64, 5),
        (DType::U64, 4),
        (DType::F16, 6),
        (DType::Bf16, 9),
        (DType::F32, 7),
        (DType::F64, 8),
        (DType::Fp8E5m2, 0),
        (DType::Fp8E4m3fn, 0),
    ];
    assert_eq!(types.len() + 1, DType::ALL.len(), "all but those of 16 bytes");
    let notes = on_fake("", || {
        let driver = open(&CudaConfig::default());
        driver.alloc_pool(PoolId(1), 2048).unwrap();
        for (dtype, _) in types {
            let map = TensorMap { dtype, sizes: vec![16, 8], swizzle: TileSwizzle::Bytes128, ..map() };
            bind(&driver, copy(map), &[at(1, 0), at(1, 1024)]).unwrap();
        }
    });
    let Some(notes) = notes else { return };
    for number in 0..=9 {
        let expected = types.iter().filter(|(_, known)| *known == number).count();
        assert_eq!(notes.count(&format!("map {number} ")), expected, "{number}");
    }
}

/// The error for a changed map.
fn error(driver: &Direct, change: impl FnOnce(&mut TensorMap)) -> String {
    let mut map = map();
    change(&mut map);
    driver.load(&artifact(&[copy(map)])).unwrap_err().to_string()
}

fn is_wrong(driver: &Direct, said: &str, change: impl FnOnce(&mut TensorMap)) {
    assert_eq!(error(driver, change), format!("kernel `copy`: tensor map 0, {said}"));
}

#[test]
fn maps_that_tma_does_not_accept() {
    let notes = on_fake("", || {
        let driver = &open(&CudaConfig::default());
        is_wrong(driver, "its memory parameter: expected one of 2, found 2", |map| map.param = 2);
        is_wrong(driver, "axes: expected 1 to 5, found 0", |map| map.sizes = vec![]);
        is_wrong(driver, "axes: expected 1 to 5, found 6", |map| map.sizes = vec![1; 6]);
        is_wrong(driver, "strides: expected 1, found 2", |map| map.strides.push(16));
        is_wrong(driver, "axes of the tile: expected 2, found 1", |map| map.tile = vec![16]);
        let sizes = "expected 1 to 4294967296, found";
        is_wrong(driver, &format!("the size of axis 1: {sizes} 0"), |map| map.sizes[1] = 0);
        is_wrong(driver, &format!("the size of axis 0: {sizes} 4294967297"), |map| {
            map.sizes[0] = (1 << 32) + 1;
        });
        is_wrong(driver, "the tile along axis 1: expected 1 to 256, found 0", |map| map.tile[1] = 0);
        is_wrong(driver, "the tile along axis 1: expected 1 to 256, found 257", |map| map.tile[1] = 257);
        let strides = "the stride of axis 1: expected a multiple of 16 up to 1099511627760, found";
        is_wrong(driver, &format!("{strides} 120"), |map| map.strides[0] = 120);
        is_wrong(driver, &format!("{strides} 1099511627776"), |map| map.strides[0] = 1 << 40);
        is_wrong(driver, "the offset: expected a multiple of 16, found 8", |map| map.offset = 8);
        is_wrong(driver, "elements: expected a type of at most 8 bytes, found u32x4", |map| {
            map.dtype = DType::U32x4;
        });
        is_wrong(driver, "bytes of a line: expected a multiple of 16, found 4", |map| map.tile[0] = 1);
        for (swizzle, most) in
            [(TileSwizzle::Bytes32, 32), (TileSwizzle::Bytes64, 64), (TileSwizzle::Bytes128, 128)]
        {
            let line = most + 16;
            let said = format!("bytes of a line: expected at most {most}, as it is swizzled, found {line}");
            is_wrong(driver, &said, |map| {
                (map.tile[0], map.swizzle) = (line / 4, swizzle);
            });
        }
    });
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("map "), notes.count("module")), (0, 0), "the driver saw none of it");
}

#[test]
fn maps_stay_within_the_memory_that_the_kernel_has() {
    on_fake("", || {
        let driver = &open(&CudaConfig::default());
        let outside = |bytes: u64, offset: u64| {
            format!("tensor map 0 of kernel `copy`: bytes {offset}..+{bytes} lie outside its 1024 bytes")
        };
        assert_eq!(error(driver, |map| map.offset = 16), outside(1024, 16));
        assert_eq!(error(driver, |map| map.sizes[0] = 33), outside(1028, 0));
        assert_eq!(error(driver, |map| map.sizes[1] = 9), outside(1152, 0));
        assert_eq!(error(driver, |map| map.strides[0] = 144), outside(1136, 0));
        let (size, stride) = (1u64 << 32, (1u64 << 40) - 16);
        let far = |map: &mut TensorMap| (map.sizes, map.strides) = (vec![size; 3], vec![stride; 2]);
        assert_eq!(
            error(driver, |map| {
                far(map);
                map.tile = vec![16, 1, 1];
            }),
            outside(u64::MAX, 0)
        );
        // The first byte after the map's memory belongs to the next node.
        let fits = |change: &dyn Fn(&mut TensorMap)| {
            let mut map = map();
            change(&mut map);
            driver.load(&artifact(&[copy(map)])).unwrap();
        };
        fits(&|_| ());
        fits(&|map| (map.sizes[0], map.offset) = (28, 16));
        fits(&|map| (map.sizes, map.strides, map.tile) = (vec![256], vec![], vec![4]));
        fits(&|map| (map.swizzle, map.tile) = (TileSwizzle::None, vec![256, 256]));
    });
}

#[test]
fn a_map_that_the_driver_rejects() {
    on_fake("maps=rejected", || {
        let driver = open(&CudaConfig::default());
        driver.alloc_pool(PoolId(1), 2048).unwrap();
        let error = bind(&driver, copy(map()), &[at(1, 0), at(1, 1024)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "encoding a tensor map: `copy`: cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VALUE (1): invalid argument"
        );
    });
}

#[test]
fn a_text_without_its_maps() {
    on_fake("", || {
        let driver = open(&CudaConfig::default());
        let kernel = copy(map());
        let mut without = module(from_ref(&kernel));
        without.launches[0].maps.clear();
        let error = driver.load(&artifact_of(from_ref(&kernel), without)).unwrap_err();
        assert_eq!(error.to_string(), "kernel `copy`: expected 3 parameters in its PTX, found 4");
    });
}

#[test]
fn gpus_without_tma() {
    on_fake("capability=89", || {
        let driver = open(&CudaConfig::default());
        let said = |what: &str| {
            format!("kernel `copy`: the compute capability for {what}: expected 9.0 or later, found 8.9")
        };
        assert_eq!(error(&driver, |_| ()), said("tensor maps"));
        let alone = Kernel { maps: vec![], ..copy(map()) }.with_cluster(1, 2);
        let alone = Kernel { threads: 2 * BLOCK, body: String::new(), ..alone };
        assert_eq!(driver.load(&artifact(from_ref(&alone))).unwrap_err().to_string(), said("clusters"));
        assert!(driver.load(&artifact(&[alone.with_cluster(1, 1)])).is_ok());
    });
}

/// Both texts are valid PTX, according to the assembler if there is one.
#[test]
fn the_texts_are_ptx() {
    assembles(&[copy(map()), clustered(8, 8, 8)]);
}

fn clustered(blocks: u32, declared: u32, launched: u32) -> Kernel {
    let body = write(0, "%r3", "%r3");
    let bytes = 4 * (blocks * BLOCK) as usize;
    Kernel::new("tile", &[(Access::Write, bytes)], blocks * BLOCK, &body).with_cluster(declared, launched)
}

#[test]
fn clusters_are_those_of_the_text() {
    let notes = on_fake("", || {
        let driver = open(&CudaConfig::default());
        let error = |blocks, declared, launched| {
            let kernel = clustered(blocks, declared, launched);
            driver.load(&artifact(&[kernel])).unwrap_err().to_string()
        };
        let size = |expected: &str, found: u32| {
            format!("kernel `tile`: blocks of a cluster: expected {expected}, found {found}")
        };
        assert_eq!(error(4, 2, 0), size("1 to 8", 0));
        assert_eq!(error(16, 16, 16), size("1 to 8", 16));
        assert_eq!(error(4, 2, 4), size("2, as its PTX says", 4));
        assert_eq!(error(4, 2, 1), size("2, as its PTX says", 1));
        assert_eq!(error(4, 1, 2), size("1, as its PTX says", 2));
        let blocks = "kernel `tile`: blocks: expected a multiple of the 2 of a cluster, found 3";
        assert_eq!(error(3, 2, 2), blocks);
        let device = device(&driver);
        let y = node("y", 8 * BLOCK as usize);
        let artifact = artifact(&[clustered(8, 8, 8)]);
        let args = vec![codegen_core::Slot::Node(lowered_ir::ir::NodeRef(0))];
        let call = codegen_core::KernelCall { kernel: 0, args, bindings: vec![] };
        let code = many_kernels("r", from_ref(&y), &[], artifact, vec![call], vec![]);
        let routine = context(&device).link(&code, from_ref(&y)).unwrap();
        drop(routine.run(&[]).unwrap());
        let expected: Vec<i32> = (0..8 * BLOCK as i32).collect();
        assert_eq!(values(routine.context(), &y), expected);
    });
    let Some(notes) = notes else { return };
    assert_eq!(notes.count("launch k_tile 8 64 0"), 1);
}
