//! Discards instructions that other processors fetched before memory changed.
//!
//! A thread that calls new code got its address through a lock or an atomic, after the code was written. On
//! x86-64 no more is needed: instruction caches are coherent. On other processors, clearing the caches leaves
//! instructions in the pipelines, so every processor that runs this process has to synchronize its context
//! once; Linux does that on request.

use std::io;

/// Waits until no processor that runs this process holds instructions fetched before the call.
pub(crate) fn discard_fetched_instructions() -> io::Result<()> {
    if cfg!(target_arch = "x86_64") { Ok(()) } else { synchronize_processors() }
}

#[cfg(not(target_os = "linux"))]
fn synchronize_processors() -> io::Result<()> {
    // On other systems, `clear-cache` calls a function of the system, which takes effect on all processors.
    Ok(())
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "`membarrier` has no safe interface")]
fn synchronize_processors() -> io::Result<()> {
    let membarrier = |command: libc::c_int| {
        // SAFETY: the system call takes integers and accesses no memory of the process.
        match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    match membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE) {
        // On first use, a process registers for the command.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)?;
            membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)
        }
        // Linux before 4.16 only has a slow command, which synchronizes the context of processors on the way.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => membarrier(libc::MEMBARRIER_CMD_GLOBAL),
        done => done,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_synchronizes_processors() {
        for _ in 0..2 {
            match synchronize_processors() {
                Ok(()) => {}
                // A sandbox may forbid the call.
                Err(error) => {
                    assert!(matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)), "{error}")
                }
            }
        }
    }
}
