//! Random programs on rows: with register-resident rows, cooperative reductions and two-pass reductions,
//! results are those of the unscheduled program.
//!
//! Numbers are integers, so that the order of a sum does not matter.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common::programs;

use std::fmt::Write;

use codegen_ptx::PtxOptions;
use fastrand::Rng;

/// A program being generated, with nodes of rows, of one element per row, and of one element per column.
struct RowProgram {
    random: Rng,
    dtype: &'static str,
    rows: usize,
    columns: usize,
    declared: String,
    body: String,
    /// Nodes that have been written, by kind.
    filled: [Vec<String>; 3],
    nodes: usize,
    loops: usize,
}

const BOTH: usize = 0;
const ROWS: usize = 1;
const COLUMNS: usize = 2;

impl RowProgram {
    fn new(seed: u64) -> RowProgram {
        let mut random = Rng::with_seed(seed);
        let dtype = ["i32", "i32", "i64", "u16"][random.usize(..4)];
        let columns = match random.u8(..6) {
            0 => random.usize(1..40),
            1 => random.usize(40..1400),
            2 => 4 * random.usize(10..600),
            3 => 256 * random.usize(1..9),
            4 => 1024 * random.usize(1..3) + [0, 4, 7, 8][random.usize(..4)],
            _ => 32 * random.usize(1..40),
        };
        let rows = 1 + random.usize(..(1 + 6000 / columns).min(48));
        let (declared, body, filled) = (String::new(), String::new(), [(); 3].map(|()| Vec::new()));
        RowProgram { random, dtype, rows, columns, declared, body, filled, nodes: 0, loops: 0 }
    }

    fn node(&mut self, of: usize, mode: &str) -> String {
        let (rows, columns) = (self.rows, self.columns);
        let dims = match of {
            BOTH => format!("{rows}, {columns}"),
            ROWS => format!("{rows}"),
            _ => format!("{columns}"),
        };
        let name = format!("%{}", self.nodes);
        writeln!(self.declared, "node {name} \"n{}\" {}[{dims}] {mode}", self.nodes, self.dtype).unwrap();
        self.nodes += 1;
        name
    }

    /// A node that the program writes. In half of all cases it is local to a run, so its values are not
    /// observed afterwards.
    fn result(&mut self, of: usize) -> String {
        let mode = if self.random.bool() { "local" } else { "on_device" };
        self.node(of, mode)
    }

    fn loop_var(&mut self) -> String {
        self.loops += 1;
        format!("i{}", self.loops - 1)
    }

    /// The index at which a loop reads a node of rows: mostly its own position, otherwise the position
    /// counted from the other end of the row.
    fn position(&mut self, row: &str, column: &str) -> String {
        match self.random.u8(..9) {
            0 => format!("{row}, {} - {column}", self.columns - 1),
            _ => format!("{row}, {column}"),
        }
    }

    fn value(&mut self, row: &str, column: &str, depth: u32) -> String {
        if depth > 0 && self.random.bool() {
            let [a, b] = [(); 2].map(|()| self.value(row, column, depth - 1));
            return match self.random.u8(..4) {
                0 => format!("({a} + {b})"),
                1 => format!("({a} - {b})"),
                2 => format!("({a} * {b})"),
                _ => format!("max({a}, {b})"),
            };
        }
        if self.random.u8(..12) == 0 {
            return self.guarded(row, column);
        }
        let of = [BOTH, BOTH, ROWS, COLUMNS][self.random.usize(..4)];
        let Some(node) = self.random.choice(self.filled[of].clone()) else {
            return format!("{}{}", self.random.u8(1..9), self.dtype);
        };
        match of {
            BOTH => format!("{node}[{}]", self.position(row, column)),
            ROWS => format!("{node}[{row}]"),
            _ => format!("{node}[{column}]"),
        }
    }

    /// An element in the first columns, and a number in the others.
    fn guarded(&mut self, row: &str, column: &str) -> String {
        let node = self.random.choice(self.filled[BOTH].clone()).unwrap_or_default();
        let end = self.random.usize(1..=self.columns);
        format!("guarded(0 <= {column} < {end}, {node}[{row}, {column}], 2{})", self.dtype)
    }

    /// A value, which now and then takes many operations.
    fn work(&mut self, row: &str, column: &str) -> String {
        let value = self.value(row, column, 2);
        if self.random.u8(..6) > 0 {
            return value;
        }
        let Some(x) = self.random.choice(self.filled[BOTH].clone()) else { return value };
        format!("({value} + {})", much(&format!("{x}[{row}, {column}]"), self.dtype))
    }

    /// `node[row, column] := value`, in loops over rows and columns.
    fn map(&mut self, node: &str, value: impl FnOnce(&mut RowProgram, &str, &str) -> String) {
        let [row, column] = [(); 2].map(|()| self.loop_var());
        let value = value(self, &row, &column);
        let (rows, columns) = (self.rows, self.columns);
        let (outer, inner) = (format!("for {row} in 0..{rows}"), format!("for {column} in 0..{columns}"));
        writeln!(self.body, "{outer} {{ {inner} {{ {node}[{row}, {column}] := {value} }} }}").unwrap();
    }

    fn reduction(&mut self) {
        let node = self.result(ROWS);
        let [fill, row, column] = [(); 3].map(|()| self.loop_var());
        let value = self.work(&row, &column);
        let (rows, columns) = (self.rows, self.columns);
        let combined = match self.random.u8(..3) {
            0 => format!("max({value}, {node}[{row}])"),
            _ => format!("{node}[{row}] + {value}"),
        };
        match self.random.bool() {
            true => writeln!(self.body, "zero {node}").unwrap(),
            false => writeln!(self.body, "for {fill} in 0..{rows} {{ {node}[{fill}] := 3{} }}", self.dtype)
                .unwrap(),
        }
        let (outer, inner) = (format!("for {row} in 0..{rows}"), format!("for {column} in 0..{columns}"));
        let pass = format!("{inner} {{ {node}[{row}] := {combined} }}");
        let body = match self.random.u8(..6) {
            0 => {
                let again = self.loop_var();
                format!("for {again} in 0..3 {{ {pass} {node}[{row}] := {node}[{row}] * 3{} }}", self.dtype)
            }
            _ => pass,
        };
        writeln!(self.body, "{outer} {{ {body} }}").unwrap();
        self.filled[ROWS].push(node);
    }

    fn step(&mut self) {
        match self.random.u8(..5) {
            0 | 1 => self.reduction(),
            2 => {
                // Updates a node in place.
                let Some(node) = self.random.choice(self.filled[BOTH].clone()) else { return };
                let own = node.clone();
                self.map(&node, |program, row, column| {
                    let other = program.value(row, column, 1);
                    // Other iterations change other elements of the node.
                    let reads_elsewhere = other.contains(&format!("{own}["));
                    let other = if reads_elsewhere { format!("5{}", program.dtype) } else { other };
                    format!("{own}[{row}, {column}] * 3{} + {other}", program.dtype)
                });
            }
            _ => {
                let node = self.result(BOTH);
                self.map(&node, |program, row, column| program.work(row, column));
                self.filled[BOTH].push(node);
            }
        }
    }

    /// The text of the routine.
    fn finish(mut self) -> String {
        for (of, count) in [(BOTH, 2), (COLUMNS, 1)] {
            for _ in 0..count {
                let node = self.node(of, "on_device");
                self.filled[of].push(node);
            }
        }
        let steps = 2 + self.random.usize(..6);
        (0..steps).for_each(|_| self.step());
        let out = self.node(BOTH, "on_device");
        self.map(&out, |program, row, column| program.value(row, column, 3));
        format!("routine @rows fast {{\n{}{}}}", self.declared, self.body)
    }
}

/// A value with so many operations that loops over a row are not unrolled.
fn much(x: &str, dtype: &str) -> String {
    let polynomial = |from: usize| {
        (from..from + 25).fold(x.to_owned(), |value, last| format!("({value} * {x} + {last}{dtype})"))
    };
    let terms: Vec<String> = (0..6).map(polynomial).collect();
    format!("({})", terms.join(" + "))
}

fn check(text: &str, seed: u64) {
    programs::check(&programs::codegen(seed, PtxOptions::default()), text, seed);
}

#[test]
fn programs_on_rows_keep_their_results() {
    for seed in filetests::effort::seeds(12) {
        check(&RowProgram::new(seed).finish(), seed);
    }
}

/// A routine that executes the loops `first` on each row, which compute `s`, then the maximum of the row,
/// then the row plus its maximum and `s`.
fn after(first: &str, columns: usize) -> String {
    format!(
        "routine @rows fast {{
           node %0 \"x\" i32[4, {columns}] on_device
           node %1 \"s\" i32[4] local
           node %2 \"m\" i32[4] local
           node %3 \"y\" i32[4, {columns}] on_device
           zero %1
           zero %2
           for i0 in 0..4 {{
             {first}
             for i3 in 0..{columns} {{ %2[i0] := max(%0[i0, i3], %2[i0]) }}
             for i4 in 0..{columns} {{ %3[i0, i4] := %0[i0, i4] + %2[i0] + %1[i0] }}
           }}
         }}"
    )
}

/// `s[i0] := s[i0] + value` for each column.
fn sum(value: &str, columns: usize) -> String {
    format!("for i1 in 0..{columns} {{ %1[i0] := %1[i0] + {value} }}")
}

#[test]
fn a_pass_of_much_work_reads_memory() {
    check(&after(&sum(&much("%0[i0, i1]", "i32"), 4096), 4096), 0);
}

#[test]
fn a_pass_within_a_loop_reads_memory() {
    let again = format!("for i2 in 0..3 {{ {} %1[i0] := %1[i0] * 3i32 }}", sum("%0[i0, i1]", 4096));
    check(&after(&again, 4096), 0);
}

#[test]
fn a_guarded_read_makes_no_row_register_resident() {
    check(&after(&sum("guarded(0 <= i1 < 300, %0[i0, i1], 7i32)", 601), 601), 0);
}
