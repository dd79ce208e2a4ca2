//! Describes each kernel call of a routine in words: its nodes by name, the statements that it computes, and
//! the method by which its kernel is compiled.
//!
//! Equal kernels are compiled once and name no nodes, so names and statements belong to the calls.

use std::collections::BTreeSet;

use assignments::{Assignments, ProgramStep};
use codegen_core::{Access, Codegen, KernelCall, Param, ScheduledRoutine, Slot};
use lowered_ir::ir::NodeRef;
use tnode::TensorNode;

/// The statements of assignments, each with the nodes that it reads and writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statements(Vec<Statement>);

#[derive(Clone, Debug)]
struct Statement {
    written: Vec<TensorNode>,
    mentioned: Vec<TensorNode>,
    /// `line N: text` for a statement from a text, the printed statement otherwise.
    shown: String,
}

impl Statements {
    pub(crate) fn of(assignments: &Assignments) -> Statements {
        let mut statements = Vec::new();
        add(&assignments.steps, assignments, &mut statements);
        Statements(statements)
    }

    /// The statements that compute `nodes`, in order: statements that write one of them, and, transitively,
    /// statements that write a node read by these, except nodes in memory.
    fn computing(&self, nodes: Vec<&TensorNode>, in_memory: &BTreeSet<&TensorNode>) -> Vec<&str> {
        let mut open = nodes;
        let mut seen: BTreeSet<&TensorNode> = open.iter().copied().collect();
        let mut found = BTreeSet::new();
        while let Some(node) = open.pop() {
            let writers = self.0.iter().enumerate().filter(|(_, statement)| statement.written.contains(node));
            for (at, statement) in writers {
                found.insert(at);
                let vanished = statement.mentioned.iter().filter(|node| !in_memory.contains(node));
                open.extend(vanished.filter(|node| seen.insert(node)));
            }
        }
        let mut shown: Vec<&str> = found.into_iter().map(|at| self.0[at].shown.as_str()).collect();
        // A statement with subexpressions is lowered to several assignments, which print alike.
        shown.dedup();
        shown
    }
}

fn add(steps: &[ProgramStep], program: &Assignments, statements: &mut Vec<Statement>) {
    for step in steps {
        if let ProgramStep::Block { steps, .. } = step {
            add(steps, program, statements);
            continue;
        }
        let mut alone = program.clone();
        alone.steps = vec![step.clone()];
        let shown = match step.origin().statement() {
            Some(span) => format!("{}: {}", span.line_name(), span.text().trim()),
            None => alone.to_string().trim().to_owned(),
        };
        let statement = Statement { written: alone.written_nodes(), mentioned: alone.nodes(), shown };
        if !statement.written.is_empty() {
            statements.push(statement);
        }
    }
}

/// The input of a report about the kernel calls of a routine.
#[derive(Clone, Copy)]
pub(crate) struct CallReport<'r> {
    pub(crate) codegen: &'r dyn Codegen,
    pub(crate) schedule: &'r ScheduledRoutine,
    /// The handles of the routine's first nodes.
    pub(crate) nodes: &'r [TensorNode],
    pub(crate) statements: &'r Statements,
}

impl CallReport<'_> {
    /// One text of several lines for each call, in order.
    pub(crate) fn texts(&self) -> Vec<String> {
        let methods: Vec<String> =
            (0..self.schedule.kernels().len()).map(|kernel| self.method(kernel)).collect();
        let in_memory =
            self.schedule.calls().iter().flat_map(|call| &call.args).filter_map(|slot| self.node(slot));
        let in_memory: BTreeSet<&TensorNode> = in_memory.collect();
        let calls = self.schedule.calls().iter().enumerate();
        calls.map(|(at, call)| self.text(at, call, &methods[call.kernel], &in_memory)).collect()
    }

    fn text(&self, at: usize, call: &KernelCall, method: &str, in_memory: &BTreeSet<&TensorNode>) -> String {
        let (number, all) = (at + 1, self.schedule.calls().len());
        let abi = self.schedule.kernels()[call.kernel].abi();
        let mut text = format!("call {number} of {all}, kernel {}: {}", abi.name, abi.cost);
        let written = self.args(call, |access| access != Access::Read);
        let read = self.args(call, |access| matches!(access, Access::Read | Access::ReadWrite));
        for (verb, slots) in [("writes", &written), ("reads", &read)] {
            if !slots.is_empty() {
                let names: Vec<String> = slots.iter().map(|slot| self.name(slot)).collect();
                text += &format!("\n  {verb} {}", names.join(", "));
            }
        }
        let computed = written.iter().filter_map(|slot| self.node(slot)).collect();
        for statement in self.statements.computing(computed, in_memory) {
            text += &format!("\n  {}", statement.replace('\n', "\n    "));
        }
        text + &format!("\n  compiled as {method}")
    }

    /// The arguments of a call whose parameter has an access that satisfies `is_used`. The merge buffer
    /// counts as read.
    fn args<'c>(&self, call: &'c KernelCall, is_used: impl Fn(Access) -> bool) -> Vec<&'c Slot> {
        let params = &self.schedule.kernels()[call.kernel].abi().params;
        let access = |param: &Param| match param {
            Param::Node { access, .. } => *access,
            Param::MergeBuffer { .. } | Param::StaticIndex { .. } => Access::Read,
        };
        let used = call.args.iter().zip(params).filter(|(_, param)| is_used(access(param)));
        used.map(|(slot, _)| slot).collect()
    }

    fn name(&self, slot: &Slot) -> String {
        let name =
            |node: NodeRef| self.schedule.nodes().get(node.index()).map_or("?", |decl| decl.name.as_str());
        match slot {
            Slot::Node(node) => name(*node).to_owned(),
            Slot::Temp(temp) => {
                let node = self.schedule.temps().get(temp.0 as usize).map(|temp| temp.node);
                format!("{} (temporary)", node.map_or("?", name))
            }
            Slot::Merge(node) => format!("{} (merge buffer)", name(*node)),
        }
    }

    /// The node whose values are in the slot's memory; `None` for the merge buffer, which no statement of the
    /// routine writes.
    fn node(&self, slot: &Slot) -> Option<&TensorNode> {
        let node = match slot {
            Slot::Node(node) => *node,
            Slot::Temp(temp) => self.schedule.temps().get(temp.0 as usize)?.node,
            Slot::Merge(_) => return None,
        };
        self.nodes.get(node.index())
    }

    fn method(&self, kernel: usize) -> String {
        match self.codegen.describe(&self.schedule.kernels()[kernel]) {
            Ok(method) if method.is_empty() => format!("{}'s only form", self.codegen.name()),
            Ok(method) => method,
            Err(error) => error.to_string(),
        }
    }
}

#[cfg(all(test, feature = "cranelift"))]
mod tests {
    use assignments::builder;
    use tnode::{DType, MemoryMode};

    use crate::{Backend, Settings};

    use super::*;

    fn node(name: &str, dtype: DType, dims: &[usize], mode: Option<MemoryMode>) -> TensorNode {
        let builder = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
        mode.into_iter().fold(builder, |builder, mode| builder.mode(mode)).build().expect("a small node")
    }

    fn reports(backend: &str, assignments: &Assignments) -> String {
        let threads = if backend == "multicore" { 2 } else { 1 };
        let settings = Settings { threads, ..Settings::default() };
        let backend = Backend::open_with(backend, settings).expect("it is in every build");
        let compiled = backend.compile_assignments(assignments).expect("a valid program");
        let statements = Statements::of(assignments);
        let code = compiled.codes().next().expect("one code");
        let (codegen, schedule) = (backend.codegen(), code.schedule());
        let report = CallReport { codegen, schedule, nodes: compiled.nodes(), statements: &statements };
        report.texts().join("\n")
    }

    #[track_caller]
    fn says(report: &str, parts: &[&str]) {
        for part in parts {
            assert!(report.contains(part), "{part:?} is not in: {report}");
        }
    }

    /// `v` is computed at its uses, so its line belongs to the call that computes `y`.
    #[test]
    fn calls_name_nodes_statements_and_methods() {
        let kept = Some(MemoryMode::Materialized);
        let [x, y, z] = ["x", "y", "z"].map(|name| node(name, DType::F32, &[2000], kept));
        let v = node("v", DType::F32, &[2000], Some(MemoryMode::Virtual));
        let [at, g] = ["at", "g"].map(|name| node(name, DType::I32, &[9], kept));
        let text = "v[i] := x[i] * 2\ny[i] := v[i] + 1\ng[i] := at[at[i]] + 1";
        let program = assignments::text::parse(text, &[x.clone(), y, z.clone(), v, at, g]);
        let program = program.expect("a valid text").then(builder::copy(&z, &x).expect("same sizes"));
        let lines = ["line 1: v[i] := x[i] * 2", "line 2: y[i] := v[i] + 1", "line 3: g[i] := at[at[i]] + 1"];
        let report = reports("inline", &program);
        says(&report, &lines);
        says(
            &report,
            &["call 1 of ", "writes y", "reads x", "4000 flops", "9 integer operations", "z[i0] =: x[i0];"],
        );
        says(&report, &["compiled as Cranelift's code, and no vector program: an index is computed"]);
        let report = reports("interpreter", &program);
        says(&report, &lines);
        says(&report, &["compiled as interpreted's only form"]);
    }

    /// Two calls share one kernel, which itself has no names.
    #[test]
    fn calls_of_one_kernel_have_names_of_their_own() {
        let kept = Some(MemoryMode::Materialized);
        let nodes = ["a1", "a2", "b1", "b2"].map(|name| node(name, DType::F32, &[2048, 2048], kept));
        let text = "a2[i,j] := a1[j,i] * 2\nb2[i,j] := b1[j,i] * 2";
        let program = assignments::text::parse(text, &nodes).expect("a valid text");
        let report = reports("multicore", &program);
        says(&report, &["writes a2\n  reads a1\n  line 1: ", "writes b2\n  reads b1\n  line 2: "]);
        assert_eq!(report.matches("compiled as a vector program").count(), 2, "{report}");
    }

    #[test]
    fn products_are_told_from_other_parts() {
        let [a, b, c] = [("a", [64, 32]), ("b", [32, 48]), ("c", [64, 48])]
            .map(|(name, dims)| node(name, DType::F32, &dims, Some(MemoryMode::Materialized)));
        let text = "c[i,j] :+= a[i,k] * b[k,j]";
        let program = assignments::text::parse(text, &[a, b, c]).expect("a valid text");
        let report = reports("inline", &program);
        assert!(report.contains("line 1: c[i,j] :+= a[i,k] * b[k,j]"), "{report}");
        assert!(report.contains("64x48x32 by microkernels") || cfg!(not(target_arch = "x86_64")), "{report}");
    }
}
