//! Processes without memory for stacks, and processes that must not execute code that they generate. Each
//! test has a process of its own, because the limits hold for the whole process.
#![cfg(all(target_os = "linux", feature = "cranelift"))]
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]
#![allow(unsafe_code, reason = "limits of the process are set by system calls")]

use arrayjit::{
    Backend, CompileError, HostArray, OpenError, Program, Settings, TensorNode, parse_nodes,
    settings::FallbackSetting,
};
use codegen_testkit::in_own_process;

/// Bytes of addresses that the process uses.
fn address_bytes() -> libc::rlim_t {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
    size.unwrap().parse::<libc::rlim_t>().unwrap() << 10
}

fn limit_addresses(bytes: libc::rlim_t) {
    // SAFETY: both calls take a pointer to a whole `rlimit` that lives during the call.
    let done = unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_AS, &mut limit);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_AS, &limit)
    };
    assert_eq!(done, 0);
}

fn vector(name: &str) -> TensorNode {
    TensorNode::builder(name).dims([2]).build().unwrap()
}

#[test]
fn want_of_memory_for_a_stack_is_an_error() {
    if !in_own_process("starved::want_of_memory_for_a_stack_is_an_error") {
        return;
    }
    const STACK: &str = "no memory for a stack of 32 MiB, which deep programs take";
    let backend = Backend::open("interpreter").unwrap();
    let (x, y) = (vector("x"), vector("y"));
    let context = backend.context().unwrap();
    let ones = HostArray::from_slice(&[1f32; 2], [2]).unwrap();
    let context = context.init_from_host(&x, &ones).unwrap();
    let compiled = backend.compile("y[i] := x[i] + 1", [&x, &y]).unwrap();
    let routine = compiled.link(&context).unwrap();

    limit_addresses(address_bytes() + (16 << 20));
    let parsed = Program::parse("y[i] := x[i]").err().map(|error| error.to_string());
    let nodes = parse_nodes("x f32[8]").err().map(|error| error.to_string());
    let lir = lowered_ir::text::parse("routine @r strict { }").err().map(|error| error.to_string());
    let opened = Backend::open("interpreter").err();
    let again = backend.compile("y[i] := x[i] + 2", [&x, &y]).err();
    let linked = compiled.link(&context).err().map(|error| error.to_string());
    let ran = routine.run(&[]).and_then(|event| event.sync()).err().map(|error| error.to_string());
    limit_addresses(libc::RLIM_INFINITY);

    for text in [&parsed, &nodes, &lir, &linked, &ran] {
        assert!(text.as_ref().is_some_and(|text| text.contains(STACK)), "{text:?}");
    }
    assert!(matches!(opened, Some(OpenError::Stack(_))), "{opened:?}");
    assert!(matches!(again, Some(CompileError::Stack(_))), "{again:?}");
    assert!(backend.compile("y[i] := x[i] + 2", [&x, &y]).is_ok(), "memory is there again");
}

/// Whether the kernel now refuses to make memory of this process executable that was not.
fn forbid_generated_code() -> bool {
    const PR_SET_MDWE: libc::c_int = 65;
    const PR_MDWE_REFUSE_EXEC_GAIN: libc::c_ulong = 1;
    // SAFETY: this request takes integers and accesses no memory.
    unsafe { libc::prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0 }
}

#[test]
fn forbidden_code_is_named_and_the_interpreter_runs_if_asked() {
    const NAME: &str = "starved::forbidden_code_is_named_and_the_interpreter_runs_if_asked";
    if !in_own_process(NAME) {
        return;
    }
    let (x, y) = (vector("x"), vector("y"));
    // Linux has this request from 6.3 on.
    if !forbid_generated_code() {
        return;
    }
    let backend = Backend::open("inline").unwrap();
    let error = backend.compile("y[i] := sin(x[i])", [&x, &y]).unwrap_err().to_string();
    assert_eq!(
        error,
        "line 1, column 1: kernel `y_k0`: the system forbids this process to execute code that it generates (Permission denied (os error 13)); SELinux (`execmem`), systemd (`MemoryDenyWriteExecute`), seccomp filters and hardened kernels do so; the setting `fallback = \"interpreter\"` runs the rejected statements on the backend `interpreter`\n1 | y[i] := sin(x[i])\n  | ^^^^"
    );
    let mut settings = Settings::default();
    settings.fallback = FallbackSetting::Interpreter;
    let backend = Backend::open_with("inline", &settings).unwrap();
    let ones = HostArray::from_slice(&[1f32, 2.0], [2]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &ones).unwrap();
    let compiled = backend.compile("y[i] := x[i] + 1", [&x, &y]).unwrap();
    let fallbacks: Vec<String> = compiled.fallbacks().iter().map(|fallback| fallback.to_string()).collect();
    assert_eq!(fallbacks.len(), 1);
    assert!(fallbacks[0].contains("to interpreter: inline does not do native code"), "{fallbacks:?}");
    let routine = compiled.link(&context).unwrap();
    routine.run(&[]).unwrap().sync().unwrap();
    assert_eq!(routine.context().to_host(&y).unwrap().values(), [2.0, 3.0]);
}
