//! Random programs mean what they say: text, lowering, optimiser and interpreter together against nested
//! loops in Rust.
//!
//! Every operation within an expression is a node specified to be virtual, so the test also requires that the
//! optimiser inlines every expression of assignment text.
//!
//! Everything is in `i32`, where arithmetic wraps and every order gives the same bits.

use crate::program;

use assignment_text::parse;
use assignments::Assignments;
use assignments::lower::{LowerErrorKind, LowerOptions, lower};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use lowered_ir::text::print;
use lowered_ir::verify::verify;
use program::{Machine, node};
use proptest::prelude::*;
use tnode::{DType, MemoryMode, TensorNode};

const LETTERS: [&str; 3] = ["i", "j", "k"];

/// `offset + Σ coefficient · letter`.
#[derive(Clone, Debug)]
struct Index {
    coefficients: [i64; 3],
    offset: i64,
}

#[derive(Clone, Debug)]
enum Expr {
    Number(i32),
    Letter(usize),
    /// An element of a node that nothing else reads. The number, if there is one, is the value outside of the
    /// dimensions.
    Read(Vec<Index>, Option<i32>),
    /// The element being written.
    Own,
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Where(Box<[Expr; 3]>),
}

#[derive(Clone, Debug)]
struct Statement {
    /// The extent of `k`.
    reduced: i64,
    op: &'static str,
    rhs: Expr,
}

#[derive(Clone, Debug)]
struct Program {
    /// The extents of `i` and `j`, which the node written has too.
    extents: [i64; 2],
    statements: Vec<Statement>,
}

/// A node that the statement reads, with its values.
struct Input {
    node: TensorNode,
    dims: Vec<i64>,
    values: Vec<f64>,
}

impl Index {
    fn text(&self) -> String {
        let terms = self.coefficients.iter().zip(LETTERS).filter(|(c, _)| **c != 0);
        let terms: String = terms.map(|(c, letter)| format!("{c}*{letter} + ")).collect();
        format!("{terms}{}", self.offset)
    }

    fn at(&self, point: [i64; 3]) -> i64 {
        self.coefficients.iter().zip(point).map(|(c, x)| c * x).sum::<i64>() + self.offset
    }
}

impl Expr {
    /// The text of the expression. Makes the nodes that it reads and appends them to `inputs`, in the order
    /// in which [`Expr::value`] reads them.
    fn text(&self, extents: [i64; 3], inputs: &mut Vec<Input>) -> String {
        match self {
            Expr::Number(x) => x.to_string(),
            Expr::Letter(l) => LETTERS[*l].to_owned(),
            Expr::Own => "y[i, j]".to_owned(),
            Expr::Read(index, outside) => {
                let last = extents.map(|extent| extent - 1);
                // A padded read may leave its node at either end.
                let size = |index: &Index| (index.at(last) + 1 - 2 * i64::from(outside.is_some())).max(1);
                let dims: Vec<i64> = index.iter().map(size).collect();
                let label = format!("n{}", inputs.len());
                let count = dims.iter().product::<i64>() as usize;
                let values = (0..count).map(|i| ((i * 37 + inputs.len() * 11) % 19) as f64 - 9.0).collect();
                let sizes: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
                inputs.push(Input { node: node(&label, DType::I32, &sizes), dims, values });
                let index = index.iter().map(Index::text).collect::<Vec<_>>().join(", ");
                match outside {
                    None => format!("{label}[{index}]"),
                    Some(x) => format!("pad({label}, {x})[{index}]"),
                }
            }
            Expr::Unary(op, a) => format!("{op}({})", a.text(extents, inputs)),
            Expr::Binary(op, a, b) => {
                let (a, b) = (a.text(extents, inputs), b.text(extents, inputs));
                if op.starts_with(char::is_alphabetic) {
                    format!("{op}({a}, {b})")
                } else {
                    format!("({a} {op} {b})")
                }
            }
            Expr::Where(args) => {
                let args: Vec<String> = args.iter().map(|arg| arg.text(extents, inputs)).collect();
                format!("where({})", args.join(", "))
            }
        }
    }

    fn value(&self, point: [i64; 3], own: i32, inputs: &mut std::slice::Iter<Input>) -> i32 {
        match self {
            Expr::Number(x) => *x,
            Expr::Letter(l) => point[*l] as i32,
            Expr::Own => own,
            Expr::Read(index, outside) => {
                let input = inputs.next().expect("text and value meet the same reads");
                let mut offset = Some(0);
                for (index, &dim) in index.iter().zip(&input.dims) {
                    let at = index.at(point);
                    offset = offset.filter(|_| (0..dim).contains(&at)).map(|offset| offset * dim + at);
                }
                match offset {
                    Some(offset) => input.values[offset as usize] as i32,
                    None => outside.expect("only padded reads leave their node"),
                }
            }
            Expr::Unary(op, a) => {
                let a = a.value(point, own, inputs);
                match *op {
                    "-" | "neg" => a.wrapping_neg(),
                    "abs" => a.wrapping_abs(),
                    "not" => i32::from(a == 0),
                    _ => a.max(0),
                }
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (a.value(point, own, inputs), b.value(point, own, inputs));
                match *op {
                    "+" => a.wrapping_add(b),
                    "-" => a.wrapping_sub(b),
                    "*" => a.wrapping_mul(b),
                    "/" => {
                        if b == 0 {
                            0
                        } else {
                            a.wrapping_div(b)
                        }
                    }
                    "%" => {
                        if b == 0 {
                            0
                        } else {
                            a.wrapping_rem(b)
                        }
                    }
                    "max" => a.max(b),
                    "min" => a.min(b),
                    "<" => i32::from(a < b),
                    "<=" => i32::from(a <= b),
                    ">" => i32::from(a > b),
                    ">=" => i32::from(a >= b),
                    "==" => i32::from(a == b),
                    _ => i32::from(a != b),
                }
            }
            Expr::Where(args) => {
                let [c, t, e] = args.each_ref().map(|arg| arg.value(point, own, inputs));
                if c != 0 { t } else { e }
            }
        }
    }
}

impl Statement {
    /// Whether there is a letter to reduce over.
    fn reduces(&self) -> bool {
        self.op != ":="
    }

    fn text(&self, [ei, ej]: [i64; 2], inputs: &mut Vec<Input>) -> String {
        let rhs = self.rhs.text([ei, ej, self.reduced], inputs);
        match self.reduces() {
            // The last letter is added as a term, so that the statement reduces over it even if the
            // expression does not mention it.
            true => {
                format!("y[i, j] {} ({rhs}) + 0*k where i < {ei}, j < {ej}, k < {}", self.op, self.reduced)
            }
            false => format!("y[i, j] := {rhs} where i < {ei}, j < {ej}"),
        }
    }

    /// The new value of element `[i, j]`.
    fn element(&self, [i, j]: [i64; 2], old: i32, inputs: &mut std::slice::Iter<Input>) -> i32 {
        let start = match self.op {
            ":=" | ":+=" => 0,
            ":*=" => 1,
            ":max=" => i32::MIN,
            ":min=" => i32::MAX,
            _ => old,
        };
        let before = inputs.clone();
        (0..if self.reduces() { self.reduced } else { 1 }).fold(start, |acc, k| {
            *inputs = before.clone();
            let new = self.rhs.value([i, j, k], old, inputs);
            match self.op {
                ":=" => new,
                ":+=" | "+=" => acc.wrapping_add(new),
                "-=" => acc.wrapping_sub(new),
                ":*=" | "*=" => acc.wrapping_mul(new),
                ":max=" | "max=" => acc.max(new),
                _ => acc.min(new),
            }
        })
    }
}

impl Program {
    fn text(&self, inputs: &mut Vec<Input>) -> String {
        self.statements.iter().map(|statement| statement.text(self.extents, inputs) + "\n").collect()
    }

    fn expected(&self, inputs: &[Input], before: &[f64]) -> Vec<f64> {
        let [_, ej] = self.extents;
        let element = |(at, &old): (usize, &f64)| {
            let point = [at as i64 / ej, at as i64 % ej];
            let mut inputs = inputs.iter();
            let run = |old, statement: &Statement| statement.element(point, old, &mut inputs);
            f64::from(self.statements.iter().fold(old as i32, run))
        };
        before.iter().enumerate().map(element).collect()
    }
}

fn index(letters: usize) -> impl Strategy<Value = Index> {
    (prop::array::uniform3(0i64..3), 0i64..3).prop_map(move |(mut coefficients, offset)| {
        coefficients[letters..].fill(0);
        Index { coefficients, offset }
    })
}

/// An expression over the first `letters` letters. With two letters, it may read the element that the
/// statement writes.
fn expr(letters: usize) -> impl Strategy<Value = Expr> {
    let read = prop::collection::vec(index(letters), 0..3);
    let padded = (prop::collection::vec(index(letters), 1..3), -9i32..9).prop_map(|(mut index, outside)| {
        index.iter_mut().for_each(|index| index.offset -= 1);
        Expr::Read(index, Some(outside))
    });
    let leaf = prop_oneof![
        1 => (-9i32..9).prop_map(Expr::Number),
        1 => (0..letters).prop_map(move |letter| if letters == 2 && letter == 1 { Expr::Own } else { Expr::Letter(letter) }),
        3 => read.prop_map(|index| Expr::Read(index, None)),
        1 => padded,
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        let unary = prop::sample::select(&["-", "neg", "abs", "not", "relu"][..]);
        let binary = prop::sample::select(
            &["+", "-", "*", "/", "%", "max", "min", "<", "<=", ">", ">=", "==", "!="][..],
        );
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (unary, boxed()).prop_map(|(op, a)| Expr::Unary(op, a)),
            (binary, boxed(), boxed()).prop_map(|(op, a, b)| Expr::Binary(op, a, b)),
            prop::array::uniform3(inner.clone()).prop_map(|args| Expr::Where(Box::new(args))),
        ]
    })
}

fn statement() -> impl Strategy<Value = Statement> {
    let ops = [":=", ":=", ":=", ":+=", "+=", "-=", ":*=", "*=", ":max=", "max=", ":min=", "min="];
    (1i64..4, prop::sample::select(ops.to_vec())).prop_flat_map(|(reduced, op)| {
        let letters = if op == ":=" { 2 } else { 3 };
        expr(letters).prop_map(move |rhs| Statement { reduced, op, rhs })
    })
}

fn a_program() -> impl Strategy<Value = Program> {
    let statements = prop::collection::vec(statement(), 1..4);
    (prop::array::uniform2(1i64..4), statements)
        .prop_map(|(extents, statements)| Program { extents, statements })
}

/// The values of `y` after a run.
fn run(machine: &mut Machine, y: &TensorNode, before: &[f64], inputs: &[Input]) -> Vec<f64> {
    machine.set(y, before);
    // The routine lacks inputs that only rejected statements read.
    for input in inputs {
        if machine.lowered.nodes.contains(&input.node) {
            machine.set(&input.node, &input.values);
        }
    }
    machine.run(&[]);
    machine.get(y)
}

/// The program without the statements that lowering rejects because no later statement reads their values;
/// the remaining statements mean the same.
fn without_lost_statements(text: &str, nodes: &[TensorNode]) -> Result<Assignments, String> {
    let mut lines: Vec<&str> = text.lines().collect();
    loop {
        let assignments = parse(&lines.join("\n"), nodes).map_err(|error| error.to_string())?;
        match lower(&assignments, &LowerOptions::default()) {
            Err(error) if matches!(error.kind(), LowerErrorKind::LostValues { .. }) => {
                lines.remove(error.spans()[0].line() - 1);
            }
            Err(error) => return Err(error.to_string()),
            Ok(_) => return Ok(assignments),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn programs_mean_what_they_say(program in a_program()) {
        let mut inputs = Vec::new();
        let text = program.text(&mut inputs);
        let [ei, ej] = program.extents;
        let y = TensorNode::builder("y").dims([ei as usize, ej as usize]).dtype(DType::I32);
        let y = y.mode(MemoryMode::Materialized).build().expect("small");
        let nodes: Vec<TensorNode> = inputs.iter().map(|input| input.node.clone()).chain([y.clone()]).collect();
        let assignments = without_lost_statements(&text, &nodes).map_err(TestCaseError::fail)?;
        let before: Vec<f64> = (0..ei * ej).map(|i| i as f64 - 3.0).collect();
        let expected = program.expected(&inputs, &before);

        let mut machine = Machine::new(&assignments);
        let routine = machine.lowered.routine.clone();
        prop_assert!(verify(&routine).is_ok(), "{}\n{}", verify(&routine).unwrap_err(), print(&routine));
        prop_assert_eq!(run(&mut machine, &y, &before, &inputs), &expected[..], "{}", text);

        let optimized = optimize(routine, &OptimizeSettings::default()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let routine = optimized.routine;
        prop_assert!(verify(&routine).is_ok(), "{}\n{}", verify(&routine).unwrap_err(), print(&routine));
        let listing = print(&routine);
        machine.lowered.routine = routine;
        prop_assert_eq!(run(&mut machine, &y, &before, &inputs), expected, "{}\n{}", text, listing);
    }
}
