//! The floating-point environment of a thread: rounding, flushing of subnormals, masks of exceptions.
//!
//! Code that changes it also changes the results of the interpreter on the same thread. [`guarded`] therefore
//! runs code under test in the default environment, and restores and reports a change.
#![allow(unsafe_code, reason = "reads and writes the control register of floating-point arithmetic")]

/// The value of the control registers, without the flags that arithmetic raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Environment(u64);

/// Runs a function in the default environment and restores the caller's; the second value describes the
/// change that the function left behind, if any.
pub(crate) fn guarded<R>(f: impl FnOnce() -> R) -> (R, Option<String>) {
    /// Restores the environment also if the function unwinds.
    struct Restore(Environment);
    impl Drop for Restore {
        fn drop(&mut self) {
            self.0.write();
        }
    }
    let _restore = Restore(Environment::read());
    Environment::DEFAULT.write();
    let result = f();
    let after = Environment::read();
    let change = (after != Environment::DEFAULT)
        .then(|| format!("leaves the floating-point environment changed: {}", after.describe()));
    (result, change)
}

impl Environment {
    /// The changes from the default, in words.
    fn describe(self) -> String {
        let changed = self.0 ^ Environment::DEFAULT.0;
        let named = FIELDS.iter().filter(|(mask, _)| changed & mask != 0).map(|(_, name)| *name);
        format!(
            "{} (register {:#x}, expected {:#x})",
            named.collect::<Vec<_>>().join(", "),
            self.0,
            Self::DEFAULT.0
        )
    }
}

/// MXCSR in the low half; in the high half the control word of the x87 unit, in which C computes `long
/// double`.
#[cfg(target_arch = "x86_64")]
const FIELDS: [(u64, &str); 7] = [
    (1 << 15, "results are flushed to zero"),
    (1 << 6, "subnormal operands are zeros"),
    (3 << 13, "another rounding direction"),
    (0x3f << 7, "exceptions are not masked"),
    (3 << 40, "another precision of x87"),
    (3 << 42, "another rounding direction of x87"),
    (0x3f << 32, "exceptions of x87 are not masked"),
];

/// The bits of the x87 control word that [`FIELDS`] has; the others are reserved or mean nothing.
#[cfg(target_arch = "x86_64")]
const X87_FIELDS: u16 = 0x0f3f;

#[cfg(target_arch = "x86_64")]
impl Environment {
    /// Rounding to nearest, subnormals kept, all exceptions masked, and the full precision of x87.
    const DEFAULT: Environment = Environment(0x1f80 | 0x033f << 32);

    fn read() -> Environment {
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        // SAFETY: `stmxcsr` stores 4 bytes, and `fnstcw` 2 bytes, at the addresses of live variables of these
        // sizes.
        unsafe {
            std::arch::asm!(
                "stmxcsr [{}]", "fnstcw [{}]",
                in(reg) &raw mut mxcsr, in(reg) &raw mut x87, options(nostack, preserves_flags)
            )
        };
        // The six lowest bits of MXCSR are the flags that arithmetic raises.
        Environment(u64::from(mxcsr & !0x3f) | u64::from(x87 & X87_FIELDS) << 32)
    }

    fn write(self) {
        let (mxcsr, x87) = (self.0 as u32, (self.0 >> 32) as u16);
        // SAFETY: `ldmxcsr` loads 4 bytes and `fldcw` 2 bytes of live variables: values that these registers
        // had before or their defaults, so no reserved bit of MXCSR is set. `fnclex` forgets exceptions that
        // x87 has noted, so that `fldcw` does not report one.
        unsafe {
            std::arch::asm!(
                "ldmxcsr [{}]", "fnclex", "fldcw [{}]",
                in(reg) &raw const mxcsr, in(reg) &raw const x87, options(nostack, preserves_flags)
            )
        };
    }
}

#[cfg(target_arch = "aarch64")]
const FIELDS: [(u64, &str); 4] = [
    (1 << 24, "subnormals are flushed to zero"),
    (1 << 25, "NaNs are replaced by the default NaN"),
    (3 << 22, "another rounding direction"),
    (0x9f << 8, "exceptions trap"),
];

#[cfg(target_arch = "aarch64")]
impl Environment {
    /// Rounding to nearest, subnormals kept, no traps.
    const DEFAULT: Environment = Environment(0);

    fn read() -> Environment {
        let fpcr: u64;
        // SAFETY: reading the register has no effect.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
        Environment(fpcr)
    }

    fn write(self) {
        // SAFETY: the value is one that this register had before, or its default.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) self.0, options(nomem, nostack, preserves_flags)) };
    }
}

/// On other architectures the environment is not checked.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const FIELDS: [(u64, &str); 0] = [];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Environment {
    const DEFAULT: Environment = Environment(0);

    fn read() -> Environment {
        Environment::DEFAULT
    }

    fn write(self) {}
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_described_and_undone() {
        let before = Environment::read();
        let left = |register: u64| guarded(|| Environment(register).write()).1.unwrap();
        let change = left(0x9fc0 | 0x033f << 32);
        assert!(change.contains("flushed to zero, subnormal operands are zeros (register"), "{change}");
        let change = left(0x1f80 | 0x0c3e << 32);
        let x87 =
            "another precision of x87, another rounding direction of x87, exceptions of x87 are not masked";
        assert!(change.contains(x87), "{change}");
        assert_eq!(Environment::read(), before);
        assert_eq!(guarded(|| 3), (3, None));
    }
}
