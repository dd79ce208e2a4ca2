//! Scheduled routines as text without the statements of their kernels, and the ABIs of compiled kernels.
//!
//! ```text
//! BYTES
//! routine …                                         the routine without statements, for symbols and nodes
//! kernel NAME EXTENT GRAIN THREADS END SCRATCH COST PARAMETERS
//! code NAME …                                       the same of the compiled kernel
//! call KERNEL ARGUMENTS / SYMBOLS                   `=N` is the step N of a scan
//! temp NODE BYTES OFFSET FIRST LAST
//! overwritten NODES
//! ```

use std::{fmt::Write, str::FromStr};

use codegen_core::{
    Access, Binding, Cost, Kernel, KernelAbi, KernelCall, Launch, LaunchEnd, Param, RoutineParts,
    ScheduledRoutine, Slot, Temp, TempId,
};
use lowered_ir::{
    ir::{LoweredRoutine, NodeDecl, NodeRef, Numerics, SymbolId},
    text::{parse, print},
};

/// The text of a schedule and of the ABIs of its compiled kernels, which do not log.
pub(super) fn write(schedule: &ScheduledRoutine, compiled: &[KernelAbi]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_parts(schedule, compiled, &mut text);
    text
}

fn write_parts(schedule: &ScheduledRoutine, compiled: &[KernelAbi], out: &mut String) -> std::fmt::Result {
    let frame = print(&LoweredRoutine {
        name: schedule.name().to_owned(),
        numerics: Numerics::default(),
        symbols: schedule.symbols().to_vec(),
        nodes: schedule.nodes().to_vec(),
        body: Vec::new(),
    });
    write!(out, "{}\n{frame}", frame.len())?;
    schedule.kernels().iter().try_for_each(|kernel| write_abi("kernel", kernel.abi(), out))?;
    compiled.iter().try_for_each(|abi| write_abi("code", abi, out))?;
    for KernelCall { kernel, args, bindings } in schedule.calls() {
        write!(out, "call {kernel}")?;
        args.iter().try_for_each(|slot| match slot {
            Slot::Node(node) => write!(out, " n{}", node.0),
            Slot::Temp(temp) => write!(out, " t{}", temp.0),
            Slot::Merge(node) => write!(out, " m{}", node.0),
        })?;
        write!(out, " /")?;
        bindings.iter().try_for_each(|binding| match binding {
            Binding::Symbol(symbol) => write!(out, " {}", symbol.0),
            Binding::Step(step) => write!(out, " ={step}"),
        })?;
        writeln!(out)?;
    }
    for Temp { node, bytes, offset, live } in schedule.temps() {
        writeln!(out, "temp {} {bytes} {offset} {} {}", node.0, live.0, live.1)?;
    }
    write!(out, "overwritten")?;
    schedule.overwritten().iter().try_for_each(|node| write!(out, " {}", node.0))?;
    writeln!(out)
}

fn write_abi(word: &str, abi: &KernelAbi, out: &mut String) -> std::fmt::Result {
    let KernelAbi { name, launch, scratch_bytes, cost, params, log: _ } = abi;
    let Launch { extent, grain, threads, end } = launch;
    write!(out, "{word} {name} {extent} {grain} {threads}")?;
    match end {
        None => write!(out, " -")?,
        Some(LaunchEnd { index, factor, offset }) => write!(out, " {index},{factor},{offset}")?,
    }
    let [flops, integers, bytes] = [cost.flops, cost.integer_ops, cost.bytes].map(f64::to_bits);
    write!(out, " {scratch_bytes} {flops:x},{integers:x},{bytes:x}")?;
    params.iter().try_for_each(|param| write_param(*param, out))?;
    writeln!(out)
}

fn write_param(param: Param, out: &mut String) -> std::fmt::Result {
    match param {
        Param::Node { access: Access::Read, bytes } => write!(out, " r{bytes}"),
        Param::Node { access: Access::Write, bytes } => write!(out, " w{bytes}"),
        Param::Node { access: Access::WritePart, bytes } => write!(out, " p{bytes}"),
        Param::Node { access: Access::ReadWrite, bytes } => write!(out, " u{bytes}"),
        Param::MergeBuffer { bytes } => write!(out, " m{bytes}"),
        Param::StaticIndex { range } => write!(out, " i{range}"),
    }
}

/// The schedule with this text, whose kernels have no statements, and the ABIs of the compiled kernels. The
/// schedule is of a routine with the nodes `known`. None if the text is of no schedule, or of one that does
/// not pass the checks of new schedules.
pub(super) fn read(text: &str, known: &[NodeDecl]) -> Option<(ScheduledRoutine, Vec<KernelAbi>)> {
    let mut rest = text;
    let length = line(&mut rest)?;
    let frame = part(&mut rest, length)?;
    let mut parts = RoutineParts {
        name: frame.name,
        symbols: frame.symbols,
        nodes: frame.nodes,
        kernels: Vec::new(),
        calls: Vec::new(),
        temps: Vec::new(),
        overwritten: Vec::new(),
    };
    restore_modes(&mut parts.nodes, known);
    let mut compiled = Vec::new();
    loop {
        let (word, line) = line(&mut rest)?.split_once(' ').unwrap_or(("overwritten", ""));
        match word {
            "kernel" => parts.kernels.push(Kernel::opaque(abi(line)?).ok()?),
            "code" => compiled.push(abi(line)?),
            "call" => parts.calls.push(call(line)?),
            "temp" => parts.temps.push(temp(line)?),
            "overwritten" => {
                parts.overwritten = numbers(line)?.into_iter().map(NodeRef).collect();
                break;
            }
            _ => return None,
        }
    }
    if rest.is_empty() { Some((ScheduledRoutine::new(parts).ok()?, compiled)) } else { None }
}

/// The text of a mode has no reasons for it. Those of the nodes that scheduling left as they are are known.
fn restore_modes(nodes: &mut [NodeDecl], known: &[NodeDecl]) {
    for (node, known) in nodes.iter_mut().zip(known) {
        if node.mode.mode() == known.mode.mode() {
            node.mode = known.mode.clone();
        }
    }
}

fn abi(line: &str) -> Option<KernelAbi> {
    let mut words = line.split(' ');
    let name = words.next()?.to_owned();
    let (extent, grain, threads) = (number(&mut words)?, number(&mut words)?, number(&mut words)?);
    let end = match words.next()? {
        "-" => None,
        end => {
            let mut parts = end.split(',');
            let (index, factor, offset) = (number(&mut parts)?, number(&mut parts)?, number(&mut parts)?);
            parts.next().is_none().then_some(Some(LaunchEnd { index, factor, offset }))?
        }
    };
    let scratch_bytes = number(&mut words)?;
    let costs = words.next()?.split(',').map(|bits| u64::from_str_radix(bits, 16).map(f64::from_bits));
    let [flops, integer_ops, bytes] = costs.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()?;
    let params = words.map(param).collect::<Option<_>>()?;
    let cost = Cost { flops, integer_ops, bytes };
    let launch = Launch { extent, grain, threads, end };
    Some(KernelAbi { name, params, launch, scratch_bytes, log: [].into(), cost })
}

fn param(word: &str) -> Option<Param> {
    let (kind, number) = word.split_at_checked(1)?;
    let node = |access| Some(Param::Node { access, bytes: number.parse().ok()? });
    match kind {
        "r" => node(Access::Read),
        "w" => node(Access::Write),
        "p" => node(Access::WritePart),
        "u" => node(Access::ReadWrite),
        "m" => Some(Param::MergeBuffer { bytes: number.parse().ok()? }),
        "i" => Some(Param::StaticIndex { range: number.parse().ok()? }),
        _ => None,
    }
}

fn call(line: &str) -> Option<KernelCall> {
    let mut words = line.split(' ');
    let kernel = number(&mut words)?;
    let mut args = Vec::new();
    for word in words.by_ref().take_while(|word| *word != "/") {
        let (kind, number) = word.split_at_checked(1)?;
        let number = number.parse().ok()?;
        args.push(match kind {
            "n" => Slot::Node(NodeRef(number)),
            "t" => Slot::Temp(TempId(number)),
            "m" => Slot::Merge(NodeRef(number)),
            _ => return None,
        });
    }
    let binding = |word: &str| match word.strip_prefix('=') {
        Some(step) => step.parse().ok().map(Binding::Step),
        None => word.parse().ok().map(|symbol| Binding::Symbol(SymbolId(symbol))),
    };
    let bindings = words.map(binding).collect::<Option<_>>()?;
    Some(KernelCall { kernel, args, bindings })
}

fn temp(line: &str) -> Option<Temp> {
    let mut words = line.split(' ');
    let temp = Temp {
        node: NodeRef(number(&mut words)?),
        bytes: number(&mut words)?,
        offset: number(&mut words)?,
        live: (number(&mut words)?, number(&mut words)?),
    };
    words.next().is_none().then_some(temp)
}

fn numbers<T: FromStr>(line: &str) -> Option<Vec<T>> {
    line.split(' ').filter(|word| !word.is_empty()).map(|word| word.parse().ok()).collect()
}

fn number<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    words.next()?.parse().ok()
}

/// Takes a line from the text.
fn line<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (line, behind) = rest.split_once('\n')?;
    *rest = behind;
    Some(line)
}

/// Takes a routine of this many bytes from the text.
fn part(rest: &mut &str, length: &str) -> Option<LoweredRoutine> {
    let (text, behind) = rest.split_at_checked(length.parse().ok()?)?;
    *rest = behind;
    parse(text).ok()
}

#[cfg(test)]
mod tests {
    use codegen_core::Interpreted;
    use filetests::generate::routine_from_seed;
    use scheduling::{ScheduleOptions, schedule};

    use super::*;

    #[test]
    fn random_schedules_are_read_as_they_were_written() {
        let mut num_kernels = 0;
        for seed in 0..200 {
            let routine = routine_from_seed(seed, 400);
            let Ok(made) = schedule(&routine, &Interpreted::new(), &ScheduleOptions::default()) else {
                continue;
            };
            let abis: Vec<KernelAbi> = made.kernels().iter().map(|kernel| kernel.abi().clone()).collect();
            if abis.iter().any(|abi| !abi.log.is_empty()) {
                continue;
            }
            let text = write(&made, &abis);
            let (known, found) = read(&text, &routine.nodes).unwrap_or_else(|| panic!("not read:\n{text}"));
            assert_eq!(write(&known, &found), text);
            assert_eq!(found, abis);
            assert_eq!(known.calls(), made.calls());
            assert_eq!(known.temps(), made.temps());
            for (known, made) in known.kernels().iter().zip(made.kernels()) {
                assert_eq!(known.abi(), made.abi());
                num_kernels += 1;
            }
        }
        assert!(num_kernels > 100, "{num_kernels}");
    }

    /// No damaged text makes the reader panic; what it accepts has passed the checks of schedules.
    #[test]
    fn damaged_texts_are_read_without_a_panic() {
        let routine = routine_from_seed(1, 400);
        let made = schedule(&routine, &Interpreted::new(), &ScheduleOptions::default()).expect("it is valid");
        let text = write(&made, &[]);
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..2000 {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(b' '..b'~');
            }
            let _ = read(&String::from_utf8_lossy(&bytes), &routine.nodes);
        }
        for end in 0..text.len() {
            assert!(!text.is_char_boundary(end) || read(&text[..end], &routine.nodes).is_none(), "{end}");
        }
    }
}
