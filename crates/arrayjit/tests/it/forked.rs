//! A process that `fork` made compiles, although it has none of the threads of its parent.
#![cfg(all(unix, feature = "cranelift"))]
#![allow(unsafe_code, clippy::unwrap_used, reason = "the test forks its own process, and may panic")]

use arrayjit::Backend;
use codegen_testkit::in_own_process;

#[test]
fn a_forked_process_compiles() {
    if !in_own_process("forked::a_forked_process_compiles") {
        return;
    }
    let compute = |text| {
        let mut program = Backend::open("multicore").unwrap().load(text).unwrap();
        program.run().unwrap();
        program.get("y").unwrap().values()
    };
    assert_eq!(compute("y[i] := 2 where i < 3; keep y"), [2.0; 3]);
    // SAFETY: the only other threads wait for work. The child calls no function that needs them.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it takes a number. A child that waits for ever is ended by a signal.
        unsafe { libc::alarm(60) };
        let is_right = compute("y[i] := 3 where i < 5; keep y") == [3.0; 5];
        // SAFETY: it takes a number.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = 0;
    // SAFETY: the status is written during the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child compiles, and has the right values");
}
