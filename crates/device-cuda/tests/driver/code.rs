//! Code: errors of the driver's compiler, limits of the GPU, and machine code cached on disk.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, slice::from_ref};

use crate::support::*;
use codegen_core::Access;
use device_cuda::CudaConfig;
use device_runtime::{Driver, DriverError, PoolId};

fn rejected(driver: &Direct, kernels: &[Kernel], module: Module) -> DriverError {
    driver.load(&artifact_of(kernels, module)).unwrap_err()
}

#[test]
fn rejected_code_names_the_kernel_the_line_and_what_was_said() {
    on_fake("", || {
        let driver = open(&CudaConfig::default());
        let bad = Kernel::new("sums", &[(Access::Write, 4)], 1, "mov.u32 %r4, 7;\nfrobnicate.u32 %r4, %r4;");
        let kernels = [count("good"), bad, count("after")];
        let text = module(&kernels).text;
        let line = 1 + text.lines().position(|line| line.contains("frobnicate")).unwrap();
        assert_eq!(
            rejected(&driver, &kernels, module(&kernels)).to_string(),
            format!(
                "kernel `sums`: the device rejected its code, which is a bug: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed; line {line}: `frobnicate.u32 %r4, %r4;`; ptxas application ptx input, line {line}; error   : Not a name of any known instruction: 'frobnicate.u32'\nptxas fatal   : Ptx assembly aborted due to errors"
            )
        );
        // The device remains usable.
        let good = driver.load(&artifact(&kernels[..1])).unwrap();
        driver.alloc_pool(PoolId(1), 4).unwrap();
        assert!(driver.bind(&good.kernel(0).unwrap(), &[at(1, 0)]).is_ok());
    });
}

#[test]
fn a_text_that_contradicts_its_artifact() {
    on_fake("", || {
        let driver = open(&CudaConfig::default());
        let kernels = [count("one"), count("two")];
        let mut renamed = module(&kernels);
        renamed.launches[1].entry = "other".to_owned();
        let error = rejected(&driver, &kernels, renamed);
        assert!(error.to_string().ends_with("its PTX has no entry point `other`"), "{error}");
        let more = [kernels[0].clone(), kernels[1].clone().with_symbols(1)];
        let error = rejected(&driver, &more, module(&kernels));
        assert_eq!(error.to_string(), "kernel `two`: expected 2 parameters in its PTX, found 1");
        // The driver would read as many bytes of each parameter as the text declares.
        let mut larger = module(&kernels);
        larger.text =
            larger.text.replacen(".param .u64 ", ".param .align 16 .b8 ", 1).replacen("p0", "p0[48]", 1);
        let error = rejected(&driver, &kernels, larger);
        assert_eq!(error.to_string(), "kernel `one`: bytes of parameter 0 in its PTX: expected 8, found 48");
        let mut cut = module(&kernels);
        cut.text = format!("{}\0", cut.text);
        let error = rejected(&driver, &kernels, cut);
        assert!(error.to_string().contains("kernel `one`, `two`: the device rejected its code"), "{error}");
        assert!(error.to_string().contains("a zero at byte"), "{error}");
    });
}

#[test]
fn code_for_others_is_not_loaded() {
    on_fake("capability=86 version=12020", || {
        let driver = open(&CudaConfig::default());
        let kernels = [count("count")];
        let targeted = |target: &str| Module { target: target.to_owned(), ..module(&kernels) };
        assert_eq!(
            rejected(&driver, &kernels, targeted("sm_90a")).to_string(),
            "device `cuda` does not load sm_90a (compute capability 8.6) artifacts"
        );
        assert!(matches!(
            rejected(&driver, &kernels, targeted("sm_89")),
            DriverError::UnsupportedPayload { .. }
        ));
        let mut newer = targeted("sm_80");
        newer.text = newer.text.replace(".version 7.0", ".version 8.3");
        assert_eq!(
            rejected(&driver, &kernels, newer).to_string(),
            "device `cuda` does not load PTX 8.3 (its driver, for CUDA 12.2, takes 8.2) artifacts"
        );
        assert!(driver.load(&artifact_of(&kernels, targeted("sm_80"))).is_ok());
    });
}

/// A module with one kernel and the given launch.
fn launched(kernel: &Kernel, blocks: u32, threads: u32) -> Module {
    let mut module = module(from_ref(kernel));
    (module.launches[0].blocks, module.launches[0].threads) = (blocks, threads);
    module
}

#[test]
fn a_kernel_that_takes_too_much_says_what_and_how_much_there_is() {
    on_fake("registers=130", || {
        let driver = open(&CudaConfig::default());
        let large = count("large");
        let error = rejected(&driver, from_ref(&large), launched(&large, 1, 512));
        assert_eq!(error.to_string(), "kernel `large`: 69632 registers, the device gives a workgroup 65536");
        assert!(driver.load(&artifact_of(from_ref(&large), launched(&large, 1, 256))).is_ok());
        let shared = count("shared").with_shared(1024, 300_000);
        let error = rejected(&driver, from_ref(&shared), module(from_ref(&shared)));
        assert_eq!(
            error.to_string(),
            "kernel `shared`: 300000 bytes of shared memory, the device gives a workgroup 232448"
        );
        let many = rejected(&driver, from_ref(&large), launched(&large, 1 << 31, 64));
        assert_eq!(
            many.to_string(),
            "kernel `large`: 2147483648 workgroups, the device runs 2147483647 in one launch"
        );
    });
    on_fake("registers=8", || {
        let driver = open(&CudaConfig::default());
        let wide = count("wide");
        let error = rejected(&driver, from_ref(&wide), launched(&wide, 1, 2048));
        assert_eq!(error.to_string(), "kernel `wide`: 2048 threads, the device gives a workgroup 1024");
    });
}

#[test]
fn shared_memory_beyond_what_code_may_declare_is_asked_for() {
    let notes = on_fake("", || {
        let driver = open(&CudaConfig::default());
        let kernels = [
            count("little").with_shared(1024, 4096),
            count("much").with_shared(1024, 100_000),
            count("all").with_shared(0, 232_448),
        ];
        let module = driver.load(&artifact(&kernels)).unwrap();
        let stream = driver.new_stream("cuda:0:0").unwrap();
        driver.alloc_pool(PoolId(1), 4).unwrap();
        for at_kernel in 0..3 {
            let bound = driver.bind(&module.kernel(at_kernel).unwrap(), &[at(1, 0)]).unwrap();
            #[allow(unsafe_code, reason = "all tasks are on one stream")]
            // SAFETY: all tasks are on one stream.
            unsafe {
                driver.launch(&stream, &bound, &[]).unwrap();
            }
        }
        driver.sync(&driver.record(&stream).unwrap()).unwrap();
    });
    let Some(notes) = notes else { return };
    assert_eq!(notes.count("allow"), 2);
    for (name, dynamic) in [("little", 3072), ("much", 98_976), ("all", 232_448)] {
        assert_eq!(notes.count(&format!("launch k_{name} 1 64 {dynamic}")), 1);
    }
}

/// An assembler that records its arguments.
fn assembler(script: &str) -> PathBuf {
    let path = folder().join("ptxas");
    fs::write(&path, format!("#!/bin/sh\necho \"$1\" >> {}\n{script}\n", folder().join("asked").display()))
        .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A script that writes machine code of the fake driver: its magic number, the text, and a zero byte.
const ASSEMBLE: &str = r#"{ printf 'FAKECUBIN\n'; cat "$2"; printf '\0'; } > "$4""#;

fn asked() -> Vec<String> {
    let asked = fs::read_to_string(folder().join("asked")).unwrap_or_default();
    asked.lines().map(str::to_owned).collect()
}

fn with_folder(assembler: PathBuf) -> CudaConfig {
    let code_folder = Some(folder().join("code"));
    CudaConfig { code_folder, assembler: Some(assembler), ..CudaConfig::default() }
}

fn kept() -> Vec<PathBuf> {
    fs::read_dir(folder().join("code")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn machine_code_is_kept_from_device_to_device() {
    let notes = on_fake("capability=90", || {
        let config = with_folder(assembler(ASSEMBLE));
        let kernels = [count("count")];
        for _ in 0..2 {
            let driver = open(&config);
            assert_eq!(properties(&driver)["keeps_machine_code"], "true");
            driver.load(&artifact(&kernels)).unwrap();
        }
        assert_eq!(asked(), ["-arch=sm_90"], "the processor's, whatever the text is for");
        let special = Module { target: "sm_90a".to_owned(), ..module(&kernels) };
        open(&config).load(&artifact_of(&kernels, special)).unwrap();
        assert_eq!(asked(), ["-arch=sm_90", "-arch=sm_90a"]);
        // The assembler is also found in `PATH`.
        let found = CudaConfig { assembler: None, ..config.clone() };
        open(&found).load(&artifact(&[count("other")])).unwrap();
        assert_eq!((asked().len(), kept().len()), (3, 3), "and nothing else is left in the folder");

        // A truncated file is replaced.
        for path in kept() {
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        }
        open(&config).load(&artifact(&kernels)).unwrap();
        assert_eq!(asked().len(), 4);
    });
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("module cubin"), notes.count("module ptx")), (5, 0));
}

#[test]
fn without_an_assembler_that_works_the_driver_compiles() {
    let notes = on_fake("", || {
        let kernels = [count("count")];
        for script in ["echo 'ptxas fatal' >&2; exit 1", "exit 0"] {
            let config = with_folder(assembler(script));
            open(&config).load(&artifact(&kernels)).unwrap();
            assert!(kept().is_empty(), "{:?}", kept());
        }
        let missing = with_folder(folder().join("nothing"));
        open(&missing).load(&artifact(&kernels)).unwrap();
        let file = folder().join("file");
        fs::write(&file, "").unwrap();
        let blocked = CudaConfig { code_folder: Some(file), ..with_folder(assembler(ASSEMBLE)) };
        open(&blocked).load(&artifact(&kernels)).unwrap();
    });
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("module cubin"), notes.count("module ptx")), (0, 4));
}

#[test]
fn machine_code_that_the_driver_rejects_is_removed() {
    let notes = on_fake("cubins=rejected", || {
        let driver = open(&with_folder(assembler(ASSEMBLE)));
        let kernels = [count("count")];
        driver.load(&artifact(&kernels)).unwrap();
        assert!(kept().is_empty());
    });
    let Some(notes) = notes else { return };
    assert_eq!(notes.count("module ptx"), 1);
}

/// The texts of the tests are valid PTX, according to the assembler if there is one.
#[test]
fn the_texts_are_ptx() {
    assembles(&[count("count"), step("step", 3), stray("stray"), count("shared").with_shared(1024, 1024)]);
}
