//! The long check: seconds by size. It runs where the environment's `COMPILE_TIME` says `full`.

use std::time::Instant;

use arrayjit::{Backend, Settings};
use filetests::generate::families::FAMILIES;

use crate::stages;

fn backend() -> Backend {
    let mut settings = Settings::default();
    settings.threads = 2;
    Backend::open_with("inline", settings).unwrap()
}

#[test]
fn stages_by_size() {
    let Ok(sizes) = std::env::var("SIZES") else { return };
    let only = std::env::var("FAMILY").unwrap_or_default();
    for family in FAMILIES.iter().filter(|f| f.name.contains(&only)) {
        for size in sizes.split(',').map(|s| s.parse::<usize>().unwrap()) {
            let program = (family.program)(size);
            let mut last = Instant::now();
            let start = last;
            let mut slow = Vec::new();
            let backend = backend();
            stages::compile(&backend, &program, &mut |name| {
                let now = Instant::now();
                slow.push(((now - last).as_secs_f64() * 1e3, name.to_owned()));
                last = now;
            });
            let total = start.elapsed().as_secs_f64() * 1e3;
            slow.sort_by(|a, b| b.0.total_cmp(&a.0));
            let top: Vec<String> = slow.iter().take(7).map(|(t, n)| format!("{n} {t:.1}")).collect();
            println!("{:<16} {size:>6} {total:>9.1} ms   {}", family.name, top.join(", "));
        }
    }
}
