//! A process made by `fork` has its own copy of loaded code. It can run that copy after its parent has freed
//! the code and loaded other code at the same address.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use code_memory::LoadedCode;

/// A function that returns a number.
fn constant(number: u8) -> LoadedCode {
    let code = match cfg!(target_arch = "x86_64") {
        // mov eax, NUMBER; ret
        true => vec![0xb8, number, 0, 0, 0, 0xc3],
        // movz w0, NUMBER; ret
        false => [0x5280_0000 | u32::from(number) << 5, 0xd65f_03c0].map(u32::to_le_bytes).concat(),
    };
    LoadedCode::load(&[&code]).expect("memory")
}

fn function(code: &LoadedCode) -> extern "C" fn() -> i32 {
    // SAFETY: the bytes are a whole function of this type; the test calls it only in a process that has the
    // code.
    unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> i32>(code.address(0)) }
}

#[test]
fn a_child_keeps_code_that_its_parent_frees() {
    let code = constant(42);
    let forty_two = function(&code);
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the child calls only functions that are safe after `fork`: `read`, the loaded code, which is in
    // its copy of the memory, and `_exit`.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut byte = 0u8;
            libc::read(pipe[0], (&raw mut byte).cast(), 1);
            libc::_exit(forty_two());
        }
        child
    };
    assert!(child > 0, "the process forks");
    let address = code.address(0);
    drop(code);
    let seven = constant(7);
    assert_eq!(seven.address(0), address, "the page is used again");
    assert_eq!(function(&seven)(), 7);
    let mut status = 0;
    // SAFETY: the descriptor is the pipe's, and both pointers are to variables that live during the calls.
    unsafe {
        assert_eq!(libc::write(pipe[1], [1u8].as_ptr().cast(), 1), 1);
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
    }
    assert_eq!(libc::WEXITSTATUS(status), 42, "of status {status}");
}
