//! General registers for the pointers of each loop.
//!
//! An instruction's address is a stream, `base + Σ coefficient · index`, plus a constant. Each loop has a
//! pointer for each stream that its instructions use directly, and advances it once per iteration. When the
//! loop begins, the pointer starts from a pointer of the enclosing loop, for the stream without the term of
//! the loop's own counter. An enclosing loop therefore also has pointers for the streams from which its inner
//! loops start, and for the integers that end its inner loops. The function itself computes the streams that
//! depend on no counter. Inner loops choose general registers first; the remaining pointers are in the stack
//! frame.

use crate::allocate::{Item, LinearCode};
use crate::machine::{Address, GeneralRegisters, MachineProgram, Stream, Trips};
use crate::program::Index;

/// The location of a pointer or of a trip count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A general register, by its number.
    Register(u8),
    /// A 64-bit word of the stack frame.
    Frame(u32),
}

/// A pointer of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer {
    pub(crate) stream: u32,
    pub(crate) location: Location,
    /// The stream of the enclosing loop from which the pointer starts.
    pub(crate) from: u32,
    /// Bytes per unit of the loop's counter.
    pub(crate) coefficient: i64,
}

/// The pointers and trip counts of all loops.
#[derive(Debug, Default)]
pub(crate) struct Pointers {
    /// The pointers of each loop of the linear code.
    pub(crate) loops: Vec<Vec<Pointer>>,
    /// The location of each loop's trip count.
    pub(crate) counts: Vec<Location>,
    /// The number of words in the stack frame.
    pub(crate) words: u32,
    /// A bit for each general register in use.
    pub(crate) used: u32,
}

/// Assigns a location to each pointer and trip count.
pub(crate) fn place_pointers(unit: &mut MachineProgram, line: &LinearCode) -> Pointers {
    let mut wanted = wanted_streams(unit, line);
    let mut pointers = Pointers { loops: vec![Vec::new(); line.loops.len()], ..Pointers::default() };
    for number in (1..line.loops.len()).rev() {
        let counter = Index::Counter(line.loops[number].counter);
        for stream in std::mem::take(&mut wanted[number]) {
            let whole = unit.streams[stream as usize].clone();
            let coefficient = whole.terms.iter().find(|(index, _)| *index == counter).map_or(0, |(_, c)| *c);
            let terms = whole.terms.into_iter().filter(|(index, _)| *index != counter).collect();
            let from = unit.stream(Stream { terms, ..whole });
            want(&mut wanted[line.loops[number].parent], from);
            pointers.loops[number].push(Pointer { stream, location: Location::Frame(0), from, coefficient });
        }
    }
    for &stream in &wanted[0] {
        pointers.loops[0].push(Pointer {
            stream,
            location: Location::Frame(0),
            from: stream,
            coefficient: 0,
        });
    }
    choose_registers(unit.isa.general_registers(), line, &mut pointers);
    pointers
}

fn want(wanted: &mut Vec<u32>, stream: u32) {
    if !wanted.contains(&stream) {
        wanted.push(stream);
    }
}

/// The streams that each loop's instructions use directly, and those that end the loops in it.
fn wanted_streams(unit: &MachineProgram, line: &LinearCode) -> Vec<Vec<u32>> {
    let mut wanted = vec![Vec::new(); line.loops.len()];
    let mut inside = 0;
    for item in &line.items {
        match item {
            Item::Inst(inst) => {
                if let Some(address) = inst.address.filter(|address| address.stream != Address::FRAME) {
                    want(&mut wanted[inside], address.stream);
                }
            }
            Item::Start(number) => {
                if let Trips::Clipped { clips, .. } = line.loops[*number].trips {
                    unit.clips[clips as usize].iter().for_each(|&clip| want(&mut wanted[inside], clip));
                }
                inside = *number;
            }
            Item::End(number) => inside = line.loops[*number].parent,
        }
    }
    wanted
}

/// Assigns general registers to inner loops first. It visits the loops in reverse, because each loop is
/// listed after the loops that enclose it.
fn choose_registers(general: &GeneralRegisters, line: &LinearCode, pointers: &mut Pointers) {
    let mut used = vec![0_u32; line.loops.len()];
    pointers.counts = vec![Location::Frame(0); line.loops.len()];
    for number in (0..line.loops.len()).rev() {
        let mut taken = used[number];
        if number == 0 {
            taken |= general.arguments.iter().fold(0, |bits, register| bits | 1 << register);
        }
        let mut choose = |words: &mut u32| match general.pointers.iter().find(|r| taken >> **r & 1 == 0) {
            Some(&register) => {
                taken |= 1 << register;
                Location::Register(register)
            }
            None => {
                *words += 1;
                Location::Frame(*words - 1)
            }
        };
        if number > 0 {
            pointers.counts[number] = choose(&mut pointers.words);
        }
        for pointer in &mut pointers.loops[number] {
            pointer.location = choose(&mut pointers.words);
        }
        pointers.used |= taken;
        used[line.loops[number].parent] |= taken;
    }
}
