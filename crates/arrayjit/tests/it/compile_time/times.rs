//! Measures compile times in seconds by program size. The times depend on the machine, so they are measured
//! only on request, in release builds.

use std::time::{Duration, Instant};

use filetests::generate::families::{FAMILIES, Family};

use super::{backend, stages};

/// The largest allowed exponent of the growth of the time with the size.
const MOST: f64 = 1.3;

/// The least time of several compilations, from the program's text to a linked routine.
fn measured(family: &Family, size: usize) -> Duration {
    let run = |_| {
        let (program, backend) = ((family.program)(size), backend());
        let start = Instant::now();
        let compiled = stages::compiled(&backend, &program);
        let took = start.elapsed();
        let context = stages::context(&backend, &program);
        let start = Instant::now();
        let routine = compiled.link(&context).unwrap();
        let took = took + start.elapsed();
        drop(routine);
        took
    };
    (0..3).map(run).min().unwrap()
}

/// Lists the stages that take most of the time.
fn slowest_stages(family: &Family, size: usize) -> String {
    let (program, backend) = ((family.program)(size), backend());
    let (mut last, mut laps) = (Instant::now(), Vec::new());
    stages::compile(&backend, &program, &mut |stage| {
        laps.push((last.elapsed(), stage.to_owned()));
        last = Instant::now();
    });
    laps.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    let slowest = laps.iter().take(4).map(|(took, stage)| format!("{stage} {took:.1?}"));
    slowest.collect::<Vec<_>>().join(", ")
}

#[test]
#[ignore = "seconds are for a release build and an idle machine: `cargo xtask ci --full` runs it"]
fn time_grows_with_the_statements() {
    check();
}

fn check() {
    let mut slow = Vec::new();
    println!("{:<16} {:>10} {:>10} {:>10}  power", "family", "500", "2000", "4000");
    for family in FAMILIES {
        let [few, some, many] = [500, 2000, 4000].map(|size| measured(family, size));
        let power = (many.as_secs_f64() / few.as_secs_f64()).log2() / 3.0;
        let [a, b, c] = [few, some, many].map(|time| format!("{time:.1?}"));
        println!("{:<16} {a:>10} {b:>10} {c:>10}  {power:.2}  {}", family.name, slowest_stages(family, 4000));
        if power >= MOST {
            slow.push(format!(
                "{}: the power {power:.2} of the size, expected less than {MOST}",
                family.name
            ));
        }
        if some >= Duration::from_secs(1) {
            slow.push(format!("{}: {some:.2?} for 2000 statements, expected less than 1 s", family.name));
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
