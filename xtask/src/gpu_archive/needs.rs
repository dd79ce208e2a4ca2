//! The requirements of a program on the machine that runs it.

/// The greatest version of the C library that a Linux program refers to, as `glibc 2.34`. A program names a
/// version for each symbol that it uses.
pub(super) fn of(program: &[u8]) -> String {
    const NAME: &[u8] = b"GLIBC_2.";
    let minor = |at: &[u8]| {
        let digits = at.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&at[..digits]).ok()?.parse::<u32>().ok()
    };
    let names = program.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let greatest = names.filter_map(|(at, _)| minor(&program[at + NAME.len()..])).max();
    greatest.map_or_else(|| "no glibc".into(), |minor| format!("glibc 2.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_version_counts() {
        assert_eq!(of(b"..\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_2."), "glibc 2.34");
        assert_eq!(of(b"GLIBC_TUNABLES"), "no glibc");
    }
}
