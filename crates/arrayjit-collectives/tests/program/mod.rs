//! Random programs over ranks, and the same programs on plain arrays of one process.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::error::Error;

use arrayjit::{
    Backend, Compiled, Context, DType, HostArray, Routine, TensorNode,
    parallel::{Merge, merge_tree},
};
use arrayjit_collectives::{Group, HostGroup, Reduction, Transport};

/// What a rank returns. Errors cross threads.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The types and lengths of the nodes that are reduced. The lengths are no multiples of any vector, block or
/// number of ranks; the first takes several exchanges.
const NODES: [(DType, usize); 5] =
    [(DType::F32, 5_003), (DType::F32, 33), (DType::Bf16, 1_001), (DType::I32, 17), (DType::F32, 1)];
/// The position of the node that parts are gathered into, which follows the reduced ones.
const WHOLE: usize = NODES.len();
/// The position of the node with one part, of this many elements.
const PART: usize = WHOLE + 1;
const PART_LENGTH: usize = 307;

/// The nodes of f32 among those that are reduced.
const FLOATS: [usize; 3] = [0, 1, 4];

/// The nodes of each rank, for operations on the nodes of owners.
fn parts(ranks: usize, of: &[usize], node: impl Fn(usize) -> TensorNode) -> Vec<Vec<TensorNode>> {
    let part = |rank| of.iter().filter(|&&at| at % ranks == rank).map(|&at| node(at)).collect();
    (0..ranks).map(part).collect()
}

/// One statement of a program.
#[derive(Clone, Copy, Debug)]
enum RankStatement {
    Halve(usize),
    Add(usize),
    Reduce(usize, Reduction),
    /// The three nodes of f32, in one operation.
    ReduceTogether,
    Scatter(Reduction),
    Gather,
    /// The nodes of f32 are reduced for their owners, where node `n` belongs to rank `n` modulo their number.
    ScatterNodes(Reduction),
    /// All nodes get the values of their owners.
    GatherNodes,
    Broadcast(usize, usize),
}

/// Pseudorandom numbers from a seed: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn statements(seed: u64, ranks: usize, count: usize) -> Vec<RankStatement> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut statement = || {
        let node = dice.below(NODES.len());
        let by = [Reduction::Sum, Reduction::Max, Reduction::Min][dice.below(3)];
        match dice.below(10) {
            0 => RankStatement::Halve(node),
            1 => RankStatement::Add(node),
            2 | 3 => RankStatement::Reduce(node, by),
            4 => RankStatement::ReduceTogether,
            5 => RankStatement::Scatter(by),
            6 => RankStatement::Gather,
            7 => RankStatement::ScatterNodes(by),
            8 => RankStatement::GatherNodes,
            _ => RankStatement::Broadcast(node, dice.below(ranks)),
        }
    };
    (0..count).map(|_| statement()).collect()
}

/// The initial values of a node on a rank.
fn initial(rank: usize, ranks: usize, position: usize) -> HostArray {
    let (dtype, length) = match position {
        WHOLE => (DType::F32, PART_LENGTH * ranks),
        PART => (DType::F32, PART_LENGTH),
        _ => NODES[position],
    };
    let mut dice = Dice(((rank * 100 + position + 1) as u64).wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut array = HostArray::zeros(dtype, [length]).unwrap();
    let scale = if dtype.is_float() { 0.001 } else { 1.0 };
    let values: Vec<f64> = (0..length).map(|_| (dice.below(20_001) as f64 - 10_000.0) * scale).collect();
    array.set_values(&values).unwrap();
    array
}

/// The nodes of a rank with their routines.
struct Machine {
    nodes: Vec<TensorNode>,
    context: Context,
    halve: Vec<Routine>,
    add: Vec<Routine>,
}

impl Machine {
    fn new(backend: &Backend, rank: usize, ranks: usize) -> Outcome<Machine> {
        let mut context = backend.context()?;
        let mut nodes = Vec::new();
        for position in 0..=PART {
            let values = initial(rank, ranks, position);
            let node = TensorNode::builder(format!("n{position}")).dims([values.num_values()]);
            let node = node.dtype(values.dtype()).build()?;
            context = context.init_from_host(&node, &values)?;
            nodes.push(node);
        }
        let compiled = |text: &str, node: &TensorNode| -> Outcome<Compiled> {
            Ok(backend.compile(&text.replace("node", &node.label().join(".")), [node])?)
        };
        let (mut halve, mut add) = (Vec::new(), Vec::new());
        for (node, (dtype, _)) in nodes.iter().zip(NODES) {
            // Integers have no half.
            let text = if dtype.is_float() { "node[i] *= 0.5" } else { "node[i] *= 3" };
            halve.push(compiled(text, node)?.link(&context)?);
            add.push(compiled("node[i] += 1", node)?.link(&context)?);
        }
        Ok(Machine { nodes, context, halve, add })
    }

    fn run(&self, group: &HostGroup, statement: RankStatement) -> Outcome<()> {
        let (context, nodes) = (&self.context, &self.nodes);
        match statement {
            RankStatement::Halve(at) => drop(self.halve[at].run(&[])?),
            RankStatement::Add(at) => drop(self.add[at].run(&[])?),
            RankStatement::Reduce(at, by) => drop(group.all_reduce(context, &nodes[at..=at], by)?),
            RankStatement::ReduceTogether => {
                let together = FLOATS.map(|at| nodes[at].clone());
                drop(group.all_reduce(context, &together, Reduction::Sum)?);
            }
            RankStatement::Scatter(by) => {
                drop(group.reduce_scatter(context, &nodes[WHOLE], &nodes[PART], by)?)
            }
            RankStatement::Gather => drop(group.all_gather(context, &nodes[PART], &nodes[WHOLE])?),
            RankStatement::ScatterNodes(by) => {
                let parts = parts(group.size(), &FLOATS, |at| nodes[at].clone());
                drop(group.reduce_scatter_nodes(context, &parts, by)?);
            }
            RankStatement::GatherNodes => {
                let parts = parts(group.size(), &[0, 1, 2, 3, 4], |at| nodes[at].clone());
                drop(group.all_gather_nodes(context, &parts)?);
            }
            RankStatement::Broadcast(at, root) => drop(group.broadcast(context, &nodes[at..=at], root)?),
        }
        Ok(())
    }
}

/// Runs a program on this rank, and returns the values of all nodes.
pub(crate) fn run(
    transport: impl Transport,
    backend: &str,
    seed: u64,
    count: usize,
) -> Outcome<Vec<HostArray>> {
    let backend = Backend::open(backend)?;
    let group = HostGroup::new(transport, backend.new_stream()?).with_block_bytes(1 << 10);
    let machine = Machine::new(&backend, group.rank(), group.size())?;
    for statement in statements(seed, group.size(), count) {
        machine.run(&group, statement)?;
    }
    let values = machine.nodes.iter().map(|node| Ok(machine.context.to_host(node)?));
    let values = values.collect::<Outcome<_>>()?;
    group.barrier()?;
    Ok(values)
}

/// The values of all nodes of all ranks after the program, computed in sequence.
pub(crate) fn model(ranks: usize, seed: u64, count: usize) -> Vec<Vec<HostArray>> {
    let arrays = |rank| (0..=PART).map(|position| initial(rank, ranks, position)).collect();
    let mut all: Vec<Vec<HostArray>> = (0..ranks).map(arrays).collect();
    for statement in statements(seed, ranks, count) {
        model_statement(&mut all, statement);
    }
    all
}

fn model_statement(all: &mut [Vec<HostArray>], statement: RankStatement) {
    match statement {
        RankStatement::Halve(at) => {
            let factor = if NODES[at].0.is_float() { 0.5 } else { 3.0 };
            all.iter_mut().for_each(|arrays| map(&mut arrays[at], |value| value * factor));
        }
        RankStatement::Add(at) => all.iter_mut().for_each(|arrays| map(&mut arrays[at], |value| value + 1.0)),
        RankStatement::Reduce(at, by) => {
            let reduced = reduced(all, at, by);
            all.iter_mut().for_each(|arrays| arrays[at] = reduced.clone());
        }
        RankStatement::ReduceTogether => {
            FLOATS.into_iter().for_each(|at| model_statement(all, RankStatement::Reduce(at, Reduction::Sum)));
        }
        RankStatement::Scatter(by) => {
            let reduced = reduced(all, WHOLE, by).values();
            for (arrays, part) in all.iter_mut().zip(reduced.chunks(PART_LENGTH)) {
                arrays[PART].set_values(part).unwrap();
            }
        }
        RankStatement::Gather => {
            let whole: Vec<f64> = all.iter().flat_map(|arrays| arrays[PART].values()).collect();
            all.iter_mut().for_each(|arrays| arrays[WHOLE].set_values(&whole).unwrap());
        }
        RankStatement::ScatterNodes(by) => {
            for at in FLOATS {
                let owner = at % all.len();
                all[owner][at] = reduced(all, at, by);
            }
        }
        RankStatement::GatherNodes => {
            (0..NODES.len())
                .for_each(|at| model_statement(all, RankStatement::Broadcast(at, at % all.len())));
        }
        RankStatement::Broadcast(at, root) => {
            let values = all[root][at].clone();
            all.iter_mut().for_each(|arrays| arrays[at] = values.clone());
        }
    }
}

/// Rounds to the type of the array, or wraps.
fn map(array: &mut HostArray, function: impl Fn(f64) -> f64) {
    let wraps = array.dtype() == DType::I32;
    let rounded = |value| if wraps { f64::from(function(value) as i64 as i32) } else { function(value) };
    let values: Vec<f64> = array.values().into_iter().map(rounded).collect();
    array.set_values(&values).unwrap();
}

fn reduced(all: &[Vec<HostArray>], at: usize, by: Reduction) -> HostArray {
    let mut terms: Vec<HostArray> = all.iter().map(|arrays| arrays[at].clone()).collect();
    for Merge { from, to } in merge_tree(all.len()) {
        let term = terms[from].values();
        let mut at = term.iter();
        let mut next = || *at.next().unwrap();
        let next = std::cell::RefCell::new(&mut next);
        map(&mut terms[to], |value| {
            let term = (next.borrow_mut())();
            match by {
                Reduction::Sum => value + term,
                Reduction::Max => value.max(term),
                Reduction::Min => value.min(term),
            }
        });
    }
    terms.swap_remove(0)
}
