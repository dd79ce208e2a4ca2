//! Regions: the parts of a routine that passes see one at a time.
//!
//! A scan is a border. Its body, which runs once per step, is optimized and scheduled like a routine of its
//! own in which the step is a symbol; so are the statements before, between and behind scans. A routine
//! without scans is one region.
//!
//! # Invariants
//! * A pass sees a verified routine, and keeps its bits for all contents that memory has before.
//! * A node that lives for one run is local to a region only if no other region mentions it and no step of a
//!   scan reads what an earlier step stored in it. In the other regions its mode is open.

use crate::ir::{
    Affine, Block, Bound, Fresh, IdSet, LoopId, LoopKind, LoweredRoutine, NodeRef, Stmt, Symbol, SymbolId,
    walk,
};
use tnode::{MemoryMode, ModeState};

use super::access;
use super::effects::Effects;
use super::virtualize::rename;

/// The statements of a region; for a scan its variable, end and body.
struct Region {
    scan: Option<(LoopId, Bound)>,
    body: Block,
}

impl Region {
    fn condition(&self) -> Option<NodeRef> {
        self.scan.as_ref().and_then(|(_, end)| end.condition())
    }

    /// The nodes that the region mentions.
    fn mentions(&self) -> IdSet<NodeRef> {
        let Effects { mut reads, writes, .. } = Effects::of(&self.body);
        reads.extend(&writes);
        reads.extend(self.condition());
        reads
    }
}

/// A routine that is divided into its regions, on which several passes run before it is put together. The
/// routine has its tables and no statements meanwhile; each region is a routine while a pass runs on it.
pub(crate) struct Regions {
    inside: Inside,
    /// The symbols that the steps of scans are meanwhile.
    steps: Vec<SymbolId>,
}

/// What is inside of a routine or scan.
enum Inside {
    /// The statements of one region.
    Region(Block),
    /// Scans, and the statements between them.
    Sections(Vec<Section>),
}

/// A scan, or the statements between scans.
struct Section {
    /// The step and the end of a scan.
    scan: Option<(SymbolId, Bound)>,
    /// The nodes that may be local to this section.
    own: IdSet<NodeRef>,
    inside: Inside,
}

impl Regions {
    /// Divides a routine.
    pub(crate) fn of(routine: &mut LoweredRoutine) -> Regions {
        let mut steps = Vec::new();
        Regions { inside: Inside::of(routine, &mut steps), steps }
    }

    /// Runs a pass on each region.
    pub(crate) fn each(&mut self, routine: &mut LoweredRoutine, pass: &mut dyn FnMut(&mut LoweredRoutine)) {
        self.inside.each(routine, pass);
    }

    /// Puts the routine together. The loops and locals of a routine with scans get new names.
    pub(crate) fn join(self, routine: &mut LoweredRoutine) {
        routine.body = match self.inside {
            Inside::Region(body) => body,
            sections => sections.join(&mut Fresh::default()),
        };
        self.steps.into_iter().rev().for_each(|step| remove_symbol(routine, step));
    }
}

impl Inside {
    fn of(routine: &mut LoweredRoutine, steps: &mut Vec<SymbolId>) -> Inside {
        match has_regions(&routine.body) {
            true => Inside::Sections(sections(routine, steps, &mut Inside::of)),
            false => Inside::Region(std::mem::take(&mut routine.body)),
        }
    }

    fn each(&mut self, routine: &mut LoweredRoutine, pass: &mut dyn FnMut(&mut LoweredRoutine)) {
        match self {
            Inside::Region(body) => {
                routine.body = std::mem::take(body);
                let conditions = conditions(&routine.body);
                with_shared(routine, &conditions, pass);
                *body = std::mem::take(&mut routine.body);
            }
            Inside::Sections(sections) => sections.iter_mut().for_each(|section| section.each(routine, pass)),
        }
    }

    fn join(self, fresh: &mut Fresh) -> Block {
        match self {
            Inside::Region(mut body) => {
                rename(&mut body, fresh);
                body
            }
            Inside::Sections(sections) => {
                sections.into_iter().flat_map(|section| section.join(fresh)).collect()
            }
        }
    }
}

impl Section {
    fn each(&mut self, routine: &mut LoweredRoutine, pass: &mut dyn FnMut(&mut LoweredRoutine)) {
        let shared = routine.node_refs().map(|(node, _)| node).filter(|node| !self.own.contains(node));
        let (shared, known): (Vec<NodeRef>, usize) = (shared.collect(), routine.nodes.len());
        with_shared(routine, &shared, &mut |routine| self.inside.each(routine, pass));
        let new = routine.node_refs().skip(known);
        self.own.extend(new.map(|(node, _)| node));
    }

    fn join(self, fresh: &mut Fresh) -> Block {
        let Some((step, hi)) = self.scan else { return self.inside.join(fresh) };
        let var = fresh.loop_id();
        let mut body = self.inside.join(fresh);
        walk::substitute(&mut body, step, &Affine::var(var));
        vec![Stmt::For { var, lo: 0, hi, kind: LoopKind::Scan, body }]
    }
}

/// The sections of a routine. `inside` takes the statements of each section from the routine; the step of a
/// scan is a symbol in them, which is added to `steps`.
fn sections(
    routine: &mut LoweredRoutine,
    steps: &mut Vec<SymbolId>,
    inside: &mut dyn FnMut(&mut LoweredRoutine, &mut Vec<SymbolId>) -> Inside,
) -> Vec<Section> {
    let regions = regions(std::mem::take(&mut routine.body));
    let mentioned: Vec<IdSet<NodeRef>> = regions.iter().map(Region::mentions).collect();
    let mut section = |(at, region): (usize, Region)| {
        let others = || mentioned.iter().enumerate().filter(|(other, _)| *other != at);
        let mut own = mentioned[at].clone();
        own.retain(|node| others().all(|(_, nodes)| !nodes.contains(node)));
        own.retain(|node| Some(*node) != region.condition());
        routine.body = region.body;
        let scan = region.scan.map(|(var, end)| {
            let step = add_symbol(routine, end.limit);
            steps.push(step);
            walk::substitute(&mut routine.body, var, &Affine::var(step));
            if !own.is_empty() {
                let facts = access::analyze(routine);
                own.retain(|&node| !facts[node].read_before_write);
            }
            (step, end)
        });
        Section { scan, own, inside: inside(routine, steps) }
    };
    regions.into_iter().enumerate().map(&mut section).collect()
}

/// Calls `f` on each scan's body as a routine, with the nodes that are its own. The loops and locals of the
/// routine get new names.
pub(crate) fn each_scan(
    routine: &mut LoweredRoutine,
    f: &mut dyn FnMut(&mut LoweredRoutine, &IdSet<NodeRef>),
) {
    let mut steps = Vec::new();
    let mut whole = |routine: &mut LoweredRoutine, _: &mut Vec<SymbolId>| {
        Inside::Region(std::mem::take(&mut routine.body))
    };
    let mut sections = sections(routine, &mut steps, &mut whole);
    for Section { scan, own, inside } in &mut sections {
        if let (Some(_), Inside::Region(body)) = (scan, inside) {
            routine.body = std::mem::take(body);
            f(routine, own);
            *body = std::mem::take(&mut routine.body);
        }
    }
    Regions { inside: Inside::Sections(sections), steps }.join(routine);
}

/// Runs a pass to which the modes of some local nodes are open.
fn with_shared(routine: &mut LoweredRoutine, shared: &[NodeRef], pass: &mut dyn FnMut(&mut LoweredRoutine)) {
    let mut modes: Vec<(usize, ModeState)> = Vec::new();
    for &node in shared {
        let mode = &mut routine.nodes[node.index()].mode;
        if mode.mode() == Some(MemoryMode::Local) {
            modes.push((node.index(), std::mem::replace(mode, ModeState::undecided())));
        }
    }
    pass(routine);
    modes.into_iter().for_each(|(at, mode)| routine.nodes[at].mode = mode);
}

/// The conditions of the scans among some statements.
fn conditions(body: &[Stmt]) -> Vec<NodeRef> {
    let scans = body.iter().filter(|stmt| scan(stmt).is_some());
    let inside = scans.flat_map(|scan| walk::stmts(std::slice::from_ref(scan)));
    inside.filter_map(Stmt::condition).collect()
}

/// Whether a body has a scan whose body can be a region.
pub fn has_regions(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| scan(stmt).is_some()) && is_closed(body)
}

/// Replaces each scan around all other loops by a copy of its body for each step, as long as the copies have
/// at most `limit` statements; other scans become serial loops.
pub fn unroll_scans(routine: &mut LoweredRoutine, limit: usize) {
    if !routine.body.iter().any(|stmt| scan(stmt).is_some()) {
        return;
    }
    let mut fresh = routine.fresh();
    let body = std::mem::take(&mut routine.body);
    routine.body = unrolled(body, limit, &mut fresh);
    scans_as_loops(&mut routine.body);
}

fn unrolled(body: Block, limit: usize, fresh: &mut Fresh) -> Block {
    let mut out = Block::new();
    for stmt in body {
        let Some((var, extent)) = scan(&stmt).and_then(|(var, end)| Some((var, end.constant()?))) else {
            out.push(stmt);
            continue;
        };
        let steps = usize::try_from(extent).unwrap_or(usize::MAX);
        if walk::stmts(std::slice::from_ref(&stmt)).count().saturating_mul(steps) > limit {
            out.push(stmt);
            continue;
        }
        let Stmt::For { body, .. } = stmt else { continue };
        let body = unrolled(body, limit / steps.max(1), fresh);
        for step in 0..extent {
            let mut copy = body.clone();
            walk::substitute(&mut copy, var, &Affine::constant(step));
            rename(&mut copy, fresh);
            out.append(&mut copy);
        }
    }
    out
}

/// Makes every scan a serial loop, since code generators know no scans.
pub fn scans_as_loops(block: &mut [Stmt]) {
    for stmt in block {
        if let Stmt::For { kind, body, .. } = stmt {
            if *kind == LoopKind::Scan {
                *kind = LoopKind::Serial;
            }
            scans_as_loops(body);
        }
    }
}

/// The variable and the end of a scan from 0 to a constant, before which a condition may end it.
fn scan(stmt: &Stmt) -> Option<(LoopId, &Bound)> {
    match stmt {
        Stmt::For { var, lo: 0, hi, kind: LoopKind::Scan, .. } if hi.clips().is_empty() => Some((*var, hi)),
        _ => None,
    }
}

/// Whether every statement uses only locals that its own region declares.
fn is_closed(body: &[Stmt]) -> bool {
    let borders = body.iter().enumerate().filter(|(_, stmt)| scan(stmt).is_some());
    let mut ends: Vec<usize> = borders.flat_map(|(at, _)| [at, at + 1]).collect();
    ends.push(body.len());
    let mut start = 0;
    ends.into_iter().all(|end| {
        let effects = Effects::of(&body[start..end]);
        start = end;
        let mut used = effects.local_reads.iter().chain(&effects.local_writes);
        used.all(|local| effects.declares.contains(local))
    })
}

fn regions(body: Block) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for stmt in body {
        match (scan(&stmt).is_some(), stmt) {
            (true, Stmt::For { var, hi, body, .. }) => {
                regions.push(Region { scan: Some((var, hi)), body });
            }
            (_, stmt) => match regions.last_mut() {
                Some(Region { scan: None, body }) => body.push(stmt),
                _ => regions.push(Region { scan: None, body: vec![stmt] }),
            },
        }
    }
    regions
}

/// Adds a symbol for the step of a scan, with a name that no symbol has.
pub fn add_symbol(routine: &mut LoweredRoutine, range: i64) -> SymbolId {
    let mut name = "step".to_owned();
    while routine.symbols.iter().any(|symbol| symbol.name == name) {
        name.push('_');
    }
    routine.symbols.push(Symbol { is_step: true, ..Symbol::parameter(name, range) });
    SymbolId(routine.symbols.len() as u32 - 1)
}

/// Removes a symbol that nothing mentions. The symbols behind it move to its place.
fn remove_symbol(routine: &mut LoweredRoutine, symbol: SymbolId) {
    routine.symbols.remove(symbol.index());
    for moved in symbol.0..routine.symbols.len() as u32 {
        let (from, to) = (SymbolId(moved + 1), Affine::var(SymbolId(moved)));
        walk::substitute(&mut routine.body, from, &to);
        let quotients = routine.symbols.iter_mut().filter_map(|symbol| symbol.quotient.as_mut());
        quotients.for_each(|quotient| quotient.dividend = quotient.dividend.substitute(from, &to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::{self, Memory};
    use crate::text::{parse, print};
    use crate::verify::verify;

    /// A scan in a scan, between statements; `%2` belongs to one step, `%3` carries.
    const SCANS: &str = "routine @r strict {
      node %0 \"x\" f32[3, 2] on_device
      node %1 \"y\" f32[3, 2] on_device
      node %2 \"own\" f32[2] local
      node %3 \"carried\" f32[2] local
      node %4 \"early\" f32[2] local
      for i0 in 0..2 { %4[i0] := 2.0f32 }
      for i1 in 0..2 { %3[i1] := %4[i1] }
      for i2 in 0..3 scan {
        for i3 in 0..2 { %2[i3] := %0[i2, i3] + 1.0f32 }
        for i4 in 0..2 scan {
          for i5 in 0..2 { %3[i5] := %3[i5] * %2[i5] }
        }
        for i6 in 0..2 { %1[i2, i6] := %3[i6] }
      }
    }";

    fn each_region(routine: &mut LoweredRoutine, pass: &mut dyn FnMut(&mut LoweredRoutine)) {
        let mut regions = Regions::of(routine);
        regions.each(routine, pass);
        regions.join(routine);
    }

    fn run(routine: &LoweredRoutine) -> Vec<u8> {
        verify(routine).unwrap_or_else(|error| panic!("{error}\n{}", print(routine)));
        let mut memory = Memory::zeroed(routine);
        for (at, bytes) in memory.nodes[0].chunks_mut(4).enumerate() {
            bytes.copy_from_slice(&(at as f32).to_le_bytes());
        }
        interp::run(routine, &mut memory, &[]).unwrap_or_else(|error| panic!("{error}"));
        memory.nodes[1].clone()
    }

    #[test]
    fn passes_see_each_body_with_its_local_nodes() {
        let mut routine = parse(SCANS).expect("the text is valid");
        let before = run(&routine);
        let mut seen = Vec::new();
        each_region(&mut routine, &mut |region| {
            verify(region).expect("a region is a routine");
            let locals = region.node_refs().filter(|(_, node)| node.mode.mode() == Some(MemoryMode::Local));
            let locals: Vec<u32> = locals.map(|(node, _)| node.0).collect();
            seen.push((region.body.len(), locals));
            // A pass may use identifiers that are unused in its region.
            let var = region.fresh().loop_id();
            let body = std::mem::take(&mut region.body);
            region.body = vec![Stmt::serial(var, 1, body)];
        });
        assert_eq!(seen.iter().map(|(body, _)| *body).collect::<Vec<_>>(), [2, 1, 1, 1]);
        assert_eq!(seen[0].1, [4], "only the statements before the scan mention %4");
        assert_eq!(routine.symbols.len(), 0);
        assert_eq!(run(&routine), before);
    }

    #[test]
    fn unrolled_scans_and_loops_have_the_same_values() {
        let routine = parse(SCANS).expect("the text is valid");
        let before = run(&routine);
        for limit in [0, 20, 1000] {
            let mut unrolled = routine.clone();
            unroll_scans(&mut unrolled, limit);
            let text = print(&unrolled);
            assert!(!text.contains("scan"), "{text}");
            assert_eq!(text.contains("0..3"), limit < 1000, "{text}");
            assert_eq!(run(&unrolled), before, "{limit}");
        }
    }

    #[test]
    fn a_scan_ends_before_its_condition_is_0_and_stays_a_loop() {
        let text = "routine @r strict {
          node %0 \"x\" f32[3, 2] on_device
          node %1 \"y\" f32[3, 2] on_device
          node %2 \"left\" f32[] local
          node %3 \"own\" f32[] local
          %2[] := 2.0f32
          for i0 in 0..3 while %2 scan {
            %3[] := %2[] + 1.0f32
            for i1 in 0..1 while %2 scan { %1[i0, 1] := %3[] }
            %1[i0, 0] := %2[]
            %2[] := %2[] - 1.0f32
          }
        }";
        let mut routine = parse(text).expect("the text is valid");
        let printed = print(&routine);
        assert_eq!(print(&parse(&printed).expect("the text is valid")), printed);
        let values = |routine: &LoweredRoutine| -> Vec<f32> {
            let bytes = run(routine);
            bytes.chunks(4).filter_map(|b| Some(f32::from_le_bytes(b.try_into().ok()?))).collect()
        };
        let expected = [2.0, 3.0, 1.0, 2.0, 0.0, 0.0];
        assert_eq!(values(&routine), expected);
        unroll_scans(&mut routine, 1000);
        assert_eq!(values(&routine), expected);
        let mut locals = Vec::new();
        each_region(&mut parse(text).expect("the text is valid"), &mut |region| {
            let is_local = |node: &crate::ir::NodeDecl| node.mode.mode() == Some(MemoryMode::Local);
            locals.push(region.nodes.iter().filter(|node| is_local(node)).count());
        });
        assert_eq!(locals, [0, 0, 0, 0], "conditions and what several regions mention have memory");
    }

    #[test]
    fn a_local_across_a_border_leaves_one_region() {
        let text = "routine @r strict {
          node %0 \"y\" f32[3] on_device
          declare l0 f32[] register
          for i0 in 0..3 scan { l0 := l0 + 1.0f32 %0[i0] := l0 }
        }";
        let mut routine = parse(text).expect("the text is valid");
        let mut count = 0;
        each_region(&mut routine, &mut |_| count += 1);
        assert_eq!(count, 1);
    }
}
