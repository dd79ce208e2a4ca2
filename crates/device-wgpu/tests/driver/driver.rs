//! The driver itself: copies of any bytes, batches, limits, rejected inputs, failures, times.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(unsafe_code, reason = "each test hands its tasks to one stream, or waits in between")]

use std::sync::Arc;

use crate::support::*;
use codegen_core::{Access, Artifact, CodegenError, Shader, host::HostModule};
use codegen_testkit::gpu_runtime::{copy_in, copy_out, launch, launches_keep_their_bindings};
use device_runtime::{
    BoundKernel, DirectDriver, Driver, DriverError, Location, PoolId, StreamHandle, WaitKind,
};
use device_wgpu::{AdapterChoice, WgpuConfig, WgpuDevice, WgpuOpenError, adapters};

fn stream(driver: &DirectDriver<WgpuDevice>, id: u32) -> StreamHandle {
    driver.new_stream(&format!("wgpu:0:{id}")).unwrap()
}

fn bind(
    driver: &DirectDriver<WgpuDevice>,
    kernel: Kernel,
    args: &[Location],
) -> Result<BoundKernel, DriverError> {
    let module = driver.load(&artifact(vec![kernel])).unwrap();
    driver.bind(&module.kernel(0).unwrap(), args)
}

fn count(name: &str) -> Kernel {
    Kernel::new(name, &[(Access::ReadWrite, 4)], 1, "w0(0u, r0(0u) + 1u);")
}

#[test]
fn launches_join_few_batches_and_keep_their_bindings() {
    let Some(driver) = open(&WgpuConfig::default()) else { return };
    let before = driver.submissions();
    launches_keep_their_bindings(&Wgpu, &driver);
    let submissions = driver.submissions() - before;
    assert!(submissions <= 5, "{submissions} submissions for 1000 launches and a copy");
}

#[test]
fn pools_share_slabs_and_large_ones_have_their_own() {
    let config = WgpuConfig { binding_bytes: Some(8 << 20), ..WgpuConfig::default() };
    let Some(driver) = open(&config) else { return };
    let stream = stream(&driver, 0);
    assert_eq!(driver.pool_cap(), 8 << 20);
    let sizes = [4 << 20, 5 << 20, 8 << 20, 3, 1 << 20, 100, 0];
    for (pool, bytes) in (1..).zip(sizes) {
        driver.alloc_pool(PoolId(pool), bytes).unwrap();
    }
    for (pool, bytes) in (1..).zip(sizes).filter(|(_, bytes)| *bytes > 0) {
        copy_in(&driver, &stream, at(pool, bytes - 1), &[pool as u8]);
    }
    for (pool, bytes) in (1..).zip(sizes).filter(|(_, bytes)| *bytes > 0) {
        assert_eq!(copy_out(&driver, &stream, at(pool, bytes - 1), 1), [pool as u8]);
    }
    assert_eq!(driver.used_memory(), sizes.iter().sum::<usize>());
    let error = driver.alloc_pool(PoolId(9), (8 << 20) + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pool 9 needs 8388609 bytes, more than the 8388608 that the device binds to a kernel at once"
    );
    (1..8).for_each(|pool| driver.free_pool(PoolId(pool)));
    driver.drop_stream(stream);
    assert_eq!(driver.used_memory(), 0);
    let shown = format!("{:?}", driver.driver());
    assert!(shown.contains("0 bytes in use"), "{shown}");
}

#[test]
fn a_kernel_reaches_several_slabs_and_no_more_than_the_device_binds() {
    let config =
        WgpuConfig { binding_bytes: Some(1 << 20), storage_buffers: Some(4), ..WgpuConfig::default() };
    let Some(driver) = open(&config) else { return };
    let stream = stream(&driver, 0);
    (1..=5).for_each(|pool| driver.alloc_pool(PoolId(pool), 1 << 20).unwrap());
    let params =
        [(Access::Read, 1 << 20), (Access::Read, 1 << 20), (Access::Read, 1 << 20), (Access::Write, 1 << 20)];
    let kernel = Kernel::new("sum", &params, 1 << 18, "w3(t, r0(t) + r1(t) + r2(t));");
    let bound = bind(&driver, kernel.clone(), &[at(1, 0), at(2, 0), at(3, 0), at(5, 0)]).unwrap();
    (1..=3).for_each(|pool| copy_in(&driver, &stream, at(pool, (1 << 20) - 4), &[pool as u8, 0, 1, 0]));
    launch(&driver, &stream, &bound, &[]);
    assert_eq!(copy_out(&driver, &stream, at(5, (1 << 20) - 8), 8), [0, 0, 0, 0, 6, 0, 3, 0]);

    let params = [&params[..], &params[..1]].concat();
    let args: Vec<_> = (1..=5).map(|pool| at(pool, 0)).collect();
    let error = bind(&driver, Kernel { params, ..kernel }, &args).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `sum`: its memory lies in 5 buffers, the device binds 4 to a kernel"
    );
}

#[test]
fn forty_nodes_are_packed_into_what_the_device_binds() {
    let config =
        WgpuConfig { binding_bytes: Some(1 << 20), storage_buffers: Some(4), ..WgpuConfig::default() };
    let Some(driver) = open(&config) else { return };
    let streams = [stream(&driver, 0), stream(&driver, 1)];
    // Two pools fit a slab, so the nodes are in twenty slabs. Each has 4,099 bytes in its pool.
    const BYTES: usize = 4099;
    let place = |node: u32| at(node + 1, 256 * node as usize);
    (0..40).for_each(|node| driver.alloc_pool(PoolId(node + 1), 500_000).unwrap());
    let reads = vec![(Access::Read, BYTES); 37];
    let params =
        [&reads[..], &[(Access::ReadWrite, BYTES), (Access::Write, BYTES), (Access::Write, BYTES)]].concat();
    let sum: Vec<String> = (0..38).map(|node| format!("r{node}(t)")).collect();
    let body = format!("w37(t, {}); w38(t, t);", sum.join(" + "));
    let kernel = Kernel::new("sum", &params, 1024, &body);
    let used = driver.used_memory();
    let bound = bind(&driver, kernel, &(0..40).map(place).collect::<Vec<_>>()).unwrap();
    assert!(driver.used_memory() > used, "packed memory is counted");

    let word = |node: u32, word: u32| (1000 * node + word).to_le_bytes();
    for node in 0..40 {
        let words: Vec<u8> = (0..1024).flat_map(|at| word(node, at)).chain([7, 8, 9, node as u8]).collect();
        copy_in(&driver, &streams[0], place(node), &words);
    }
    // Two streams take turns, so that a run of one could come between the copies of another.
    let mut last = driver.record(&streams[0]).unwrap();
    for run in 0..6 {
        driver.wait(&streams[run % 2], &last, WaitKind::Data).unwrap();
        launch(&driver, &streams[run % 2], &bound, &[]);
        last = driver.record(&streams[run % 2]).unwrap();
    }
    driver.wait(&streams[0], &last, WaitKind::Data).unwrap();
    let found = |node: u32| {
        let bytes = copy_out(&driver, &streams[0], place(node), BYTES + 1);
        assert_eq!(bytes[4096..], [7, 8, 9, node as u8], "what is behind the last element stays");
        bytes[..4096].chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect::<Vec<u32>>()
    };
    let inputs = |at: u32| (0..37).map(|node| 1000 * node + at).sum::<u32>();
    let expected: Vec<u32> = (0..1024).map(|at| 37_000 + at + 6 * inputs(at)).collect();
    assert_eq!(found(37), expected);
    assert_eq!(found(38), (0..1024).collect::<Vec<u32>>());
    assert_eq!(found(39), (39_000..40_024).collect::<Vec<u32>>(), "an output that the kernel does not write");
    assert_eq!(found(3), (3000..4024).collect::<Vec<u32>>());
    drop(bound);
    streams.into_iter().for_each(|stream| driver.drop_stream(stream));
    assert_eq!(driver.used_memory(), used);
}

#[test]
fn large_grids_are_split_over_dimensions() {
    let config = WgpuConfig { groups_per_dimension: Some(256), ..WgpuConfig::default() };
    let Some(driver) = open(&config) else { return };
    let stream = stream(&driver, 0);
    // 300 · 64 threads need two rows of workgroups; 70,000 · 64 need two planes of them.
    for threads in [300 * 64, 70_000 * 64 - 5] {
        let bytes = threads / 8;
        driver.alloc_pool(PoolId(1), bytes).unwrap();
        // Every 32nd thread writes a word, so that all workgroups have to run.
        let body = "if t % 32u == 0u { w0(t / 32u, t + 1u); }";
        let kernel = Kernel::new("fill", &[(Access::Write, bytes / 4 * 4)], threads as u32, body);
        let bound = bind(&driver, kernel, &[at(1, 0)]).unwrap();
        launch(&driver, &stream, &bound, &[]);
        let found = copy_out(&driver, &stream, at(1, 0), bytes / 4 * 4);
        let expected: Vec<u8> = (0..threads as u32 / 32).flat_map(|i| (32 * i + 1).to_le_bytes()).collect();
        assert!(found == expected, "{threads} threads");
        driver.free_pool(PoolId(1));
    }
    let groups = |_: &[u32]| Ok(Shader { wgsl: String::new(), groups: 1 << 40, table_words: 1 });
    let abi = count("huge").abi();
    let artifact = Artifact::shaders(Arc::new(Texts(groups)), vec![abi]);
    driver.alloc_pool(PoolId(2), 4).unwrap();
    let module = driver.load(&artifact).unwrap();
    let error = driver.bind(&module.kernel(0).unwrap(), &[at(2, 0)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `huge`: 1099511627776 workgroups, the device runs 16777216 in one launch"
    );
}

#[test]
fn rejected_code_names_the_kernel_and_the_line() {
    let Some(driver) = open(&WgpuConfig::default()) else { return };
    driver.alloc_pool(PoolId(1), 1024).unwrap();
    let rejected = |body: &str| {
        let kernel = Kernel::new("sums", &[(Access::Write, 4)], 1, body);
        bind(&driver, kernel, &[at(1, 0)]).unwrap_err()
    };
    let error = rejected("w0(0u, 1.5 + nonsense);");
    assert!(matches!(&error, DriverError::CodeRejected { kernel, .. } if kernel == "sums"), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("kernel `sums`: the device rejected its code, which is a bug: "), "{text}");
    assert!(text.contains("nonsense") && text.contains("wgsl:9:18"), "{text}");
    assert!(matches!(rejected("w0(0u, 1.5);"), DriverError::CodeRejected { .. }));

    let unsupported = CodegenError::Unsupported {
        codegen: "hand".to_owned(),
        kernel: "sums".to_owned(),
        op: "everything".to_owned(),
        why: "it is a test".to_owned(),
    };
    let (answer, abi) = (unsupported.clone(), count("sums").abi());
    let texts = Texts(move |_: &[u32]| Err::<Shader, _>(answer.clone()));
    let artifact = Artifact::shaders(Arc::new(texts), vec![abi]);
    let module = driver.load(&artifact).unwrap();
    let kernel = module.kernel(0).unwrap();
    assert_eq!(driver.bind(&kernel, &[at(1, 0)]).unwrap_err(), DriverError::Codegen(unsupported));
    assert_eq!(module.kernel(1).unwrap_err(), DriverError::NoSuchEntry { index: 1, kernels: 1 });

    // The device remains usable.
    let bound = bind(&driver, count("count"), &[at(1, 0)]).unwrap();
    let stream = stream(&driver, 0);
    copy_in(&driver, &stream, at(1, 0), &[6, 0, 0, 0]);
    launch(&driver, &stream, &bound, &[]);
    assert_eq!(copy_out(&driver, &stream, at(1, 0), 4), [7, 0, 0, 0]);
}

#[test]
fn mismatched_inputs_are_rejected() {
    let Some(driver) = open(&WgpuConfig::default()) else { return };
    driver.alloc_pool(PoolId(1), 1024).unwrap();
    let host = Artifact::host(HostModule::interpreted(vec![]));
    assert!(matches!(driver.load(&host), Err(DriverError::UnsupportedPayload { .. })));
    let other = open(&WgpuConfig::default()).unwrap();
    let bound = bind(&driver, count("count"), &[at(1, 0)]).unwrap();
    let [own, foreign] = [&driver, &other].map(|driver| stream(driver, 0));
    let rejected = |what| Err(DriverError::ForeignHandle { what });
    // SAFETY: no task is submitted.
    let launched = unsafe { [driver.launch(&foreign, &bound, &[]), other.launch(&foreign, &bound, &[])] };
    assert_eq!(launched, [rejected("stream"), rejected("bound kernel")]);
    assert!(driver.is_idle(&own));
}

#[test]
fn adapters_are_listed_and_chosen() {
    let found = adapters();
    if found.is_empty() {
        return skip("adapters_are_listed_and_chosen", "no adapter");
    }
    for (index, info) in found.iter().enumerate() {
        assert_eq!(info.index, index);
        let config = WgpuConfig { adapter: AdapterChoice::Index(index), ..WgpuConfig::default() };
        let driver = open(&config).unwrap();
        assert_eq!((driver.adapter(), driver.is_software()), (info, info.is_software()));
        assert_eq!(properties(&driver)["software"], info.is_software().to_string());
    }
    let part = found[0].name.chars().take(4).collect::<String>().to_uppercase();
    let config = WgpuConfig { adapter: AdapterChoice::Name(part), ..WgpuConfig::default() };
    assert_eq!(open(&config).unwrap().adapter().index, 0);
    let config = WgpuConfig { adapter: "no such adapter".parse().unwrap(), ..WgpuConfig::default() };
    let error = WgpuDevice::open(&config).unwrap_err();
    assert!(matches!(&error, WgpuOpenError::NoAdapter { found: listed, .. } if *listed == found), "{error}");
    assert!(error.to_string().contains(&found[0].name), "{error}");
    let config = WgpuConfig { storage_buffers: Some(2), ..WgpuConfig::default() };
    let error = WgpuDevice::open(&config).unwrap_err();
    let expected = ("max_storage_buffers_per_shader_stage", 4, 2);
    assert!(
        matches!(error, WgpuOpenError::TooSmall { limit, needed, found, .. } if (limit, needed, found) == expected)
    );
}
