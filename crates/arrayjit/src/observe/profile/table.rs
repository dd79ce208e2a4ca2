//! A profile as a table for terminals.

use std::{collections::HashMap, fmt::Write as _};

use device_runtime::LaunchSize;

use super::{
    call::list,
    profile::{Profile, ProfiledCall, TimeSummary},
    roofline::Limit,
    statements::Statement,
};

/// Calls that are shorter than this part of a run share a line at the end.
const SHORT: f64 = 0.01;
/// The most characters of a statement.
const STATEMENT_CHARS: usize = 100;

const HEADING: &str =
    "  call   median us       %    total ms   GFLOP/s      GB/s   roofline  kernel and its code";

/// The table: a heading with the run and the device's limits, and the calls, the longest first.
pub(super) fn table(profile: &Profile) -> String {
    let mut text = heading(profile);
    let whole = profile.kernel_us();
    let mut rows = rows(profile);
    rows.sort_by(|a, b| b.call.median_us().total_cmp(&a.call.median_us()));
    let is_long = |row: &Row| whole == 0.0 || row.call.median_us() >= SHORT * whole;
    let (long, short): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_long);
    text += HEADING;
    text.push('\n');
    for row in long {
        line(&mut text, &row, whole);
        details(&mut text, &row.call);
    }
    if !short.is_empty() {
        let us: f64 = short.iter().map(|row| row.call.median_us()).sum();
        let calls: usize = short.iter().map(|row| row.count).sum();
        let _ = writeln!(
            text,
            "{:>6} {us:>11.1} {:>7.1}  in {}",
            "…",
            percent(us, whole),
            counted(calls, "shorter call")
        );
    }
    text
}

/// Calls of a run that have a line together.
struct Row {
    /// The position of the first.
    at: usize,
    count: usize,
    /// The calls as one, with the sum of their times and of their work.
    call: ProfiledCall,
}

/// The calls; those that do the same, such as the steps of a scan, are one row.
fn rows(profile: &Profile) -> Vec<Row> {
    let mut groups: Vec<(usize, Vec<&ProfiledCall>)> = Vec::new();
    let mut of_kernel: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, call) in profile.calls.iter().enumerate() {
        let known = of_kernel.entry(&call.description.kernel).or_default();
        let is_same = |group: &&usize| {
            let first = groups[**group].1[0];
            first.description == call.description && first.device == call.device
        };
        match known.iter().find(is_same) {
            Some(&group) => groups[group].1.push(call),
            None => {
                known.push(groups.len());
                groups.push((at, vec![call]));
            }
        }
    }
    groups
        .into_iter()
        .map(|(at, calls)| Row { at, count: calls.len(), call: joined(profile, &calls) })
        .collect()
}

/// Calls that do the same as one call.
fn joined(profile: &Profile, calls: &[&ProfiledCall]) -> ProfiledCall {
    let mut whole = calls[0].clone();
    if calls.len() == 1 {
        return whole;
    }
    let cost = &mut whole.description.cost;
    let times = calls.len() as f64;
    (cost.flops, cost.integer_ops, cost.bytes) =
        (times * cost.flops, times * cost.integer_ops, times * cost.bytes);
    let times = calls.iter().map(|call| call.time);
    whole.time = times
        .reduce(|sum: Option<TimeSummary>, time| {
            let (sum, time) = sum.zip(time)?;
            let median_us = sum.median_us + time.median_us;
            Some(TimeSummary { median_us, total_us: sum.total_us + time.total_us, ..sum })
        })
        .flatten();
    let limits = profile.roofline.as_ref().filter(|_| whole.device == profile.device);
    whole.roofline_share = limits
        .zip(whole.time)
        .and_then(|(limits, time)| limits.share(&whole.description.cost, time.median_us));
    whole
}

fn heading(profile: &Profile) -> String {
    let Profile { routine, device, threads, .. } = profile;
    let mut text = format!("profile of {routine} on {device}, {}: ", counted(*threads, "thread"));
    let calls = counted(profile.calls.len(), "kernel call");
    let _ = match profile.run_time {
        None => writeln!(text, "{calls}, no measured run"),
        Some(time) => writeln!(
            text,
            "{} of {calls}, median {:.1} us, {:.1} us of it in kernels",
            counted(time.count as usize, "run"),
            time.median_us,
            profile.kernel_us()
        ),
    };
    let memory = &profile.memory;
    let _ = writeln!(
        text,
        "memory: {} alive at most; temporaries of {} share {}",
        bytes(memory.peak_bytes() as f64),
        bytes(memory.temporaries.iter().map(|temporary| temporary.bytes as f64).sum()),
        bytes(memory.temporary_pool_bytes as f64)
    );
    if let Some(roofline) = &profile.roofline {
        let _ = writeln!(text, "roofline: {roofline}");
    }
    profile.notes.iter().for_each(|note| {
        let _ = writeln!(text, "note: {note}");
    });
    text
}

fn line(text: &mut String, row: &Row, whole: f64) {
    let Row { at, count, call } = row;
    let mut kernel = call.description.kernel.clone();
    if *count > 1 {
        let _ = write!(kernel, ", {count} calls");
    }
    let Some(time) = call.time else {
        let _ = writeln!(
            text,
            "{:>6} {:>11} {:>7} {:>11} {:>9} {:>9} {:>10}  {kernel}",
            at + 1,
            "-",
            "-",
            "-",
            "-",
            "-",
            "-"
        );
        return;
    };
    let share = call.roofline_share.map_or_else(
        || "-".to_owned(),
        |share| {
            let limit = if share.limit == Limit::Arithmetic { "flops" } else { "bytes" };
            format!("{:.0}% {limit}", 100.0 * share.share)
        },
    );
    let _ = writeln!(
        text,
        "{:>6} {:>11.1} {:>7.1} {:>11.2} {:>9.2} {:>9.2} {share:>10}  {kernel}",
        at + 1,
        time.median_us,
        percent(time.median_us, whole),
        time.total_us / 1e3,
        call.gflops(),
        call.gbps()
    );
}

/// The lines below a call: its code, its nodes and its statements.
fn details(text: &mut String, call: &ProfiledCall) {
    let description = &call.description;
    let mut add = |line: String| {
        let _ = writeln!(text, "         {line}");
    };
    add(description.compiled_as());
    if let Some(size) = &call.launch {
        add(launched(size));
    }
    if !description.writes.is_empty() {
        add(format!("writes {}", list(&description.writes)));
    }
    if !description.reads.is_empty() {
        add(format!("reads {}", list(&description.reads)));
    }
    description.statements.iter().for_each(|statement| add(shown(statement)));
}

/// The grid, and what a thread and a block of it take.
fn launched(size: &LaunchSize) -> String {
    let LaunchSize { blocks, threads, registers, shared_bytes, local_bytes } = *size;
    let mut text = format!(
        "{} of {}, {}",
        counted(blocks as usize, "block"),
        counted(threads as usize, "thread"),
        counted(registers as usize, "register")
    );
    for (count, memory) in [(shared_bytes, "shared"), (local_bytes, "local")] {
        if count > 0 {
            let _ = write!(text, ", {} of {memory} memory", bytes(count.into()));
        }
    }
    text
}

/// A statement on one line: for a statement of a function, the line of the user's text that calls it.
fn shown(statement: &Statement) -> String {
    let one_line = |text: &str| {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match words.char_indices().nth(STATEMENT_CHARS) {
            Some((end, _)) => format!("{}…", &words[..end]),
            None => words,
        }
    };
    match (&statement.call, statement.user_line) {
        (Some(call), Some(line)) => {
            format!("line {line}: {} in {}", one_line(&statement.text), one_line(call))
        }
        _ => one_line(&statement.to_string()),
    }
}

/// A number with its unit in singular or plural.
fn counted(count: usize, unit: &str) -> String {
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

fn percent(us: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * us / whole } else { 0.0 }
}

/// A number of bytes in the largest unit in which it is at least 1.
pub(super) fn bytes(bytes: f64) -> String {
    let bytes = bytes + 0.0; // the sum of no floats is -0
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(size, _)| bytes >= f64::from(*size));
    let Some((size, unit)) = unit else { return format!("{bytes:.0} B") };
    let count = bytes / f64::from(size);
    if count.fract() == 0.0 { format!("{count:.0} {unit}") } else { format!("{count:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use expect_test::{expect, expect_file};

    use super::*;
    use crate::profile::profile::example;

    #[test]
    fn the_longest_call_is_the_first() {
        expect![[r#"
            profile of step on multicore:0, 2 threads: 4 runs of 3 kernel calls, median 4.1 us, 4.0 us of it in kernels
            memory: 12.1 KiB alive at most; temporaries of 4 KiB share 4 KiB
            roofline: 100 GFLOP/s (f32 matmul); copies of 4 KiB 50 GB/s, 1 MiB 25 GB/s
              call   median us       %    total ms   GFLOP/s      GB/s   roofline  kernel and its code
                 3         3.0    74.6        0.01      0.34      1.41   3% bytes  step_k2
                     Cranelift's code, and no vector program: an index is computed
                     writes s
                     reads h (temporary)
                     line 3: m[..] :max= x[..,k] in softmax(h[i,j])
                 2         1.0    24.9        0.00     65.54     12.29  66% flops  step_k1
                     GEMM 32x32x32 by microkernels (tiles of 6x16, operands in place)
                     writes h (temporary)
                     reads x, w
                     line 1: h[i,j] :+= x[i,k] * w[k,j]
                 …         0.0     0.5  in 1 shorter call
        "#]].assert_eq(&example::profile().to_table());
    }

    /// As those of a scan's steps.
    #[test]
    fn calls_that_do_the_same_share_a_line() {
        let mut profile = example::profile();
        profile.calls = vec![profile.calls[1].clone(); 64];
        let table = profile.to_table();
        let line = table.lines().nth(4).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            words,
            ["1", "64.0", "100.0", "0.29", "65.54", "12.29", "66%", "flops", "step_k1,", "64", "calls"]
        );
        assert_eq!(table.matches("step_k1").count(), 1, "{table}");
    }

    #[test]
    fn without_times_there_are_notes_and_dashes() {
        let mut profile = example::profile().with_roofline(None);
        (profile.run_time, profile.notes) = (None, vec!["a device cannot time its kernels".into()]);
        profile.calls.truncate(1);
        profile.calls[0].time = None;
        expect![[r#"
            profile of step on multicore:0, 2 threads: 1 kernel call, no measured run
            memory: 12.1 KiB alive at most; temporaries of 4 KiB share 4 KiB
            note: a device cannot time its kernels
              call   median us       %    total ms   GFLOP/s      GB/s   roofline  kernel and its code
                 1           -       -           -         -         -          -  step_k0
                     a vector program (8 lanes)
                     writes s
        "#]]
        .assert_eq(&profile.to_table());
    }

    #[test]
    fn on_a_gpu_calls_have_a_grid() {
        let mut profile = example::profile().with_roofline(None);
        let size =
            LaunchSize { blocks: 264, threads: 256, registers: 168, shared_bytes: 49152, local_bytes: 16 };
        profile.calls.truncate(1);
        profile.calls[0].launch = Some(size);
        let line = "264 blocks of 256 threads, 168 registers, 48 KiB of shared memory, 16 B of local memory";
        assert!(profile.to_table().contains(line), "{}", profile.to_table());
        let json: serde_json::Value = serde_json::from_str(&profile.to_json()).expect("JSON");
        assert_eq!(json["calls"][0]["launch"]["registers"], 168);
    }

    /// Programs read the names of these fields.
    #[test]
    fn json_has_every_field() {
        expect_file!["golden/profile.json"].assert_eq(&(example::profile().to_json() + "\n"));
    }

    #[test]
    fn sizes_have_the_largest_unit() {
        assert_eq!([0.0, 1023.0, 1024.0, 1.5 * 1048576.0].map(bytes), ["0 B", "1023 B", "1 KiB", "1.5 MiB"]);
        assert_eq!(bytes(Vec::<f64>::new().iter().sum()), "0 B");
    }
}
