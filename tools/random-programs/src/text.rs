//! The assignment text of a program, and its listing with nodes and data.

use std::collections::BTreeSet;
use std::fmt;

use crate::program::{
    Accumulation, NodeMode, ProgramAccess, ProgramAffine, ProgramAssign, ProgramAxis, ProgramBound,
    ProgramExpr, ProgramLetter, ProgramNode, ProgramNumber, ProgramStatement, ProgramVar, RandomProgram,
};

impl RandomProgram {
    /// The text of one routine.
    pub fn text(&self, routine: usize) -> String {
        self.routines[routine].iter().map(|statement| self.statement_text(statement) + "\n").collect()
    }

    /// The text of one statement, without a line end.
    pub fn statement_text(&self, statement: &ProgramStatement) -> String {
        match statement {
            ProgramStatement::Offsets { node } => format!("{} := offsets()", self.nodes[*node].name),
            ProgramStatement::Values { node, values } => {
                let values: Vec<String> = values.iter().map(ProgramNumber::to_string).collect();
                format!("{} := values({})", self.nodes[*node].name, values.join(", "))
            }
            ProgramStatement::Slice { node, source, symbol } => {
                let symbol = &self.symbols[*symbol];
                format!(
                    "{} := slice({}, @{}) where @{} < {}",
                    self.nodes[*node].name, self.nodes[*source].name, symbol.name, symbol.name, symbol.range
                )
            }
            ProgramStatement::Assign(assign) => self.assign(assign),
        }
    }

    /// Statements that compute a node `loss` of rank 0: the sum of the sines of all elements between -30 and
    /// 30 of the floats that the first routine writes. Empty if it writes no floats.
    pub fn loss_text(&self) -> String {
        let written: BTreeSet<usize> =
            self.routines[0].iter().flat_map(|statement| statement.written()).collect();
        let is_summed = |node: &ProgramNode| {
            node.dtype.is_float() && !node.dims.contains(&0) && node.mode != NodeMode::Virtual
        };
        let summed = written.into_iter().map(|at| &self.nodes[at]).filter(|node| is_summed(node));
        let (mut text, mut parts) = (String::new(), Vec::new());
        for (at, ProgramNode { name, dims, .. }) in summed.enumerate() {
            let letters: Vec<String> = (0..dims.len()).map(|axis| format!("i{axis}")).collect();
            let element = format!("{name}[{}]", letters.join(", "));
            let sum = if dims.is_empty() { ":=" } else { ":+=" };
            text += &format!("part{at} {sum} sin(where(abs({element}) < 30.0, {element}, 0.0))\n");
            parts.push(format!("part{at}"));
        }
        if parts.is_empty() { text } else { format!("{text}loss := {}\n", parts.join(" + ")) }
    }

    fn assign(&self, assign: &ProgramAssign) -> String {
        let list = |items: Vec<String>| items.join(", ");
        let targets = list(assign.targets.iter().map(|target| self.access(assign, target)).collect());
        let values = list(assign.values.iter().map(|value| self.expr(assign, value, true)).collect());
        let start = if assign.starts || assign.op == Accumulation::Store { ":" } else { "" };
        let limits = self.limits(assign);
        let limits = if limits.is_empty() { String::new() } else { format!(" where {}", list(limits)) };
        format!("{targets} {start}{}= {values}{limits}", assign.op.token())
    }

    fn limits(&self, assign: &ProgramAssign) -> Vec<String> {
        let (outer, inner) = assign.loops();
        let needed = outer.iter().chain(&inner).filter(|&&letter| self.needs_limit(assign, letter));
        let letters = needed.map(|&letter| {
            let ProgramLetter { name, extent, .. } = assign.letters[letter];
            format!("{name} < {extent}")
        });
        let mut symbols: Vec<usize> = Vec::new();
        let mut visit = |e: &ProgramExpr| {
            if let ProgramExpr::Var(ProgramVar::Symbol(symbol)) = e
                && !symbols.contains(symbol)
            {
                symbols.push(*symbol);
            }
        };
        assign.targets.iter().for_each(|target| target.walk(&mut visit));
        assign.values.iter().for_each(|value| value.walk(&mut visit));
        let sides = assign.bound.iter().flat_map(|bound| [bound.less, bound.greater]);
        sides.for_each(|side| visit(&ProgramExpr::Var(side)));
        let bound = assign.bound.map(|ProgramBound { less, greater, is_strict }| {
            let [less, greater] = [less, greater].map(|side| self.var(assign, side));
            format!("{less} {} {greater}", if is_strict { "<" } else { "<=" })
        });
        let symbols =
            symbols.iter().map(|&s| format!("@{} < {}", self.symbols[s].name, self.symbols[s].range));
        letters.chain(symbols).chain(bound).collect()
    }

    /// Whether the text must give the range of a letter, because the range does not follow from the axes
    /// whose index is only this letter, or because the program asks for it.
    fn needs_limit(&self, assign: &ProgramAssign, letter: usize) -> bool {
        let ProgramLetter { extent, is_explicit, .. } = assign.letters[letter];
        let mut sizes = Vec::new();
        for access in assign.accesses() {
            for (axis, &size) in access.axes.iter().zip(&self.nodes[access.node].dims) {
                if let ProgramAxis::Affine(ProgramAffine { terms, offset: 0 }) = axis
                    && matches!(terms[..], [(1, ProgramVar::Letter(l))] if l == letter)
                {
                    sizes.push(size);
                }
            }
        }
        is_explicit || sizes.is_empty() || sizes.iter().any(|&size| size != extent)
    }

    fn access(&self, assign: &ProgramAssign, access: &ProgramAccess) -> String {
        let axes: Vec<String> = access.axes.iter().map(|axis| self.axis(assign, axis)).collect();
        let name = &self.nodes[access.node].name;
        let name = match access.pad {
            Some(number) => format!("pad({name}, {number})"),
            None => name.clone(),
        };
        format!("{name}[{}]", axes.join(", "))
    }

    fn axis(&self, assign: &ProgramAssign, axis: &ProgramAxis) -> String {
        match axis {
            ProgramAxis::Computed(expr) => self.expr(assign, expr, false),
            ProgramAxis::Concat(letters) => {
                letters.iter().map(|&l| assign.letters[l].name).collect::<Vec<_>>().join("^")
            }
            ProgramAxis::Affine(affine) => {
                let mut text = String::new();
                for &(factor, var) in &affine.terms {
                    let sign = if factor < 0 {
                        "-"
                    } else if text.is_empty() {
                        ""
                    } else {
                        "+"
                    };
                    let factor = if factor.abs() == 1 { String::new() } else { format!("{}*", factor.abs()) };
                    text += &format!("{sign}{factor}{}", self.var(assign, var));
                }
                match affine.offset {
                    0 if !text.is_empty() => text,
                    offset if offset >= 0 && !text.is_empty() => format!("{text}+{offset}"),
                    offset => format!("{text}{offset}"),
                }
            }
        }
    }

    fn var(&self, assign: &ProgramAssign, var: ProgramVar) -> String {
        match var {
            ProgramVar::Letter(letter) => assign.letters[letter].name.to_owned(),
            ProgramVar::Symbol(symbol) => format!("@{}", self.symbols[symbol].name),
        }
    }

    fn expr(&self, assign: &ProgramAssign, expr: &ProgramExpr, is_whole: bool) -> String {
        let list = |args: &[ProgramExpr]| {
            args.iter().map(|arg| self.expr(assign, arg, true)).collect::<Vec<_>>().join(", ")
        };
        match expr {
            ProgramExpr::Number(number) => number.to_string(),
            ProgramExpr::Var(var) => self.var(assign, *var),
            ProgramExpr::Size(letter) => format!("size({})", assign.letters[*letter].name),
            ProgramExpr::Read(access) => self.access(assign, access),
            ProgramExpr::Cast(dtype, a) => format!("{dtype}({})", self.expr(assign, a, true)),
            ProgramExpr::Unary(op, a) => format!("{}({})", op.token(), self.expr(assign, a, true)),
            ProgramExpr::Where(args) => format!("where({})", list(&args[..])),
            ProgramExpr::Fma(args) => format!("fma({})", list(&args[..])),
            ProgramExpr::Binary(op, args) if op.token().starts_with(char::is_alphabetic) => {
                format!("{}({})", op.token(), list(&args[..]))
            }
            ProgramExpr::Binary(op, args) => {
                let [a, b] = [0, 1].map(|at| self.expr(assign, &args[at], false));
                let text = format!("{a} {} {b}", op.token());
                if is_whole { text } else { format!("({text})") }
            }
        }
    }
}

impl fmt::Display for ProgramNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramNumber::Integer(value) => write!(f, "{value}"),
            ProgramNumber::Fraction(value) => write!(f, "{value:?}"),
            ProgramNumber::Infinity => f.write_str("inf"),
            ProgramNumber::Nan => f.write_str("nan"),
        }
    }
}

impl fmt::Display for RandomProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: String = (0..self.routines.len()).map(|routine| self.text(routine)).collect();
        let is_mentioned = |node: &&ProgramNode| {
            texts.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == node.name)
        };
        for node in self.nodes.iter().filter(is_mentioned) {
            write!(f, "node {} {}{:?} {:?}", node.name, node.dtype, node.dims, node.mode)?;
            if node.margin > 0 {
                write!(f, " margin {} {:?}", node.margin, node.neutral)?;
            }
            match &node.data {
                Some(data) => writeln!(f, " = {:x?}", &data[..data.len().min(40)])?,
                None => writeln!(f)?,
            }
        }
        for round in &self.rounds {
            writeln!(f, "round {round:?}")?;
        }
        for routine in 0..self.routines.len() {
            write!(f, "routine {routine}\n{}", self.text(routine))?;
        }
        Ok(())
    }
}
