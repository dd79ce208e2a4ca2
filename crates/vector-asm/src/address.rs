//! Pointers: where each loop keeps those that its instructions use.
//!
//! An instruction's address is a stream, `base + Σ coefficient · index`, and a constant. Each loop has a pointer for each stream that
//! is used directly in it. It begins as the pointer of the loop around for the same stream without the loop's own counter, and grows once an iteration. So the loops around
//! have pointers for what the inner ones begin with, up to the function, which computes those that depend on no counter. Inner loops choose
//! general registers first; what is left over lies in the stack frame.

use crate::allocate::{Item, Line};
use crate::machine::{Address, Stream, Unit};
use crate::program::Index;

/// Where a pointer or a count of iterations is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In a general register, by its number.
    Register(u8),
    /// In the stack frame: which word of 64 bits.
    Frame(u32),
}

/// A pointer of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer {
    pub(crate) stream: u32,
    pub(crate) location: Location,
    /// The stream of the loop around that it begins with.
    pub(crate) from: u32,
    /// What one more of the loop's counter adds.
    pub(crate) coefficient: i64,
}

/// Where loops keep things.
#[derive(Debug, Default)]
pub(crate) struct Pointers {
    /// For each loop of the line.
    pub(crate) loops: Vec<Vec<Pointer>>,
    /// Where each loop counts its iterations.
    pub(crate) counts: Vec<Location>,
    /// Words of the stack frame.
    pub(crate) words: u32,
    /// A bit for each general register in use.
    pub(crate) used: u16,
}

/// Registers for pointers: those that need not be saved come first. 0 and 11 are kept for what lies in the frame, 4 is the stack pointer, and 5 the
/// frame's.
const POINTERS: [u8; 12] = [7, 6, 2, 1, 8, 9, 10, 3, 12, 13, 14, 15];
/// Registers in which the function's arguments come: not for pointers that are computed from them.
const ARGUMENTS: [u8; 5] = [7, 6, 2, 1, 8];

/// Finds a place for each pointer.
pub(crate) fn place_pointers(unit: &mut Unit, line: &Line) -> Pointers {
    let mut wanted = wanted_streams(line);
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
    choose_registers(line, &mut pointers);
    pointers
}

fn want(wanted: &mut Vec<u32>, stream: u32) {
    if !wanted.contains(&stream) {
        wanted.push(stream);
    }
}

/// The streams that each loop's instructions use directly.
fn wanted_streams(line: &Line) -> Vec<Vec<u32>> {
    let mut wanted = vec![Vec::new(); line.loops.len()];
    let mut inside = 0;
    for item in &line.items {
        match item {
            Item::Inst(inst) => {
                if let Some(address) = inst.address.filter(|address| address.stream != Address::FRAME) {
                    want(&mut wanted[inside], address.stream);
                }
            }
            Item::Start(number) => inside = *number,
            Item::End(number) => inside = line.loops[*number].parent,
        }
    }
    wanted
}

/// Loops come behind those around them, so backwards the inner ones come first.
fn choose_registers(line: &Line, pointers: &mut Pointers) {
    let mut used = vec![0_u16; line.loops.len()];
    pointers.counts = vec![Location::Frame(0); line.loops.len()];
    for number in (0..line.loops.len()).rev() {
        let mut taken = used[number];
        if number == 0 {
            taken |= ARGUMENTS.iter().fold(0, |bits, register| bits | 1 << register);
        }
        let mut choose = |words: &mut u32| match POINTERS.iter().find(|r| taken >> **r & 1 == 0) {
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
