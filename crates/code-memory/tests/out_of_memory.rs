//! Where the system gives no memory, loading code is an error and leaves the loaded code as it is. The test
//! has a process of its own, since it limits the process's memory.
#![cfg(target_os = "linux")]

use code_memory::{LoadedCode, usage};

/// Sets how many bytes of addresses the process may use.
fn limit_addresses(bytes: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to a whole `rlimit` that lives during the call.
    let done = unsafe {
        libc::getrlimit(libc::RLIMIT_AS, &mut limit);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_AS, &limit)
    };
    assert_eq!(done, 0, "the soft limit may be lowered and raised again");
}

/// Bytes of addresses that the process uses.
fn address_bytes() -> libc::rlim_t {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
    size.and_then(|size| size.parse::<libc::rlim_t>().ok()).expect("a number of kilobytes") << 10
}

#[test]
fn code_without_memory_is_an_error() {
    let small = LoadedCode::load(&[&[0xc3; 100]]).expect("memory");
    let before = usage();
    let large = vec![0xc3; 64 << 20];
    limit_addresses(address_bytes() + (16 << 20));
    let rejected = LoadedCode::load(&[&large]);
    let beside = LoadedCode::load(&[&[0xc3; 100]]).map(|code| code.bytes());
    limit_addresses(libc::RLIM_INFINITY);
    assert!(rejected.is_err());
    assert_eq!(beside.ok(), Some(small.bytes()), "pages of a mapped chunk need no more addresses");
    assert_eq!(usage(), before);
    assert!(LoadedCode::load(&[&large]).is_ok());
}
