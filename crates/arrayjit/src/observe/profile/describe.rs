//! Describes each kernel call of a scheduled routine: its nodes by name, the statements that it computes, its
//! cost, and the methods by which its kernel is compiled.
//!
//! Equal kernels are compiled once and name no nodes, so names and statements belong to the calls.

use std::collections::BTreeSet;

use codegen_core::{Access, Codegen, CompilationMethod, KernelCall, ScheduledRoutine, Slot};
use lowered_ir::ir::NodeRef;
use tnode::TensorNode;

use super::{
    call::{CallDescription, CallOperand, OperandMemory},
    statements::Statements,
};

/// The input of a description of the kernel calls of a routine.
#[derive(Clone, Copy)]
pub(crate) struct CallsOf<'r> {
    pub(crate) codegen: &'r dyn Codegen,
    pub(crate) schedule: &'r ScheduledRoutine,
    /// The handles of the routine's first nodes.
    pub(crate) nodes: &'r [TensorNode],
    pub(crate) statements: &'r Statements,
}

impl CallsOf<'_> {
    /// The description of each call, in order.
    pub(crate) fn describe(&self) -> Vec<CallDescription> {
        let methods: Vec<Vec<CompilationMethod>> =
            (0..self.schedule.kernels().len()).map(|kernel| self.methods(kernel)).collect();
        let in_memory =
            self.schedule.calls().iter().flat_map(|call| &call.args).filter_map(|slot| self.node(slot));
        let in_memory: BTreeSet<&TensorNode> = in_memory.collect();
        self.schedule.calls().iter().map(|call| self.call(call, &methods[call.kernel], &in_memory)).collect()
    }

    fn call(
        &self,
        call: &KernelCall,
        methods: &[CompilationMethod],
        in_memory: &BTreeSet<&TensorNode>,
    ) -> CallDescription {
        let abi = self.schedule.kernels()[call.kernel].abi();
        let written = self.args(call, |access| access != Access::Read);
        let read = self.args(call, |access| matches!(access, Access::Read | Access::ReadWrite));
        let computed = written.iter().filter_map(|(slot, _)| self.node(slot)).collect();
        let operands = |args: &[(&Slot, usize)]| args.iter().map(|arg| self.operand(*arg)).collect();
        CallDescription {
            kernel: abi.name.clone(),
            reads: operands(&read),
            writes: operands(&written),
            statements: self.statements.computing(computed, in_memory),
            cost: abi.cost,
            methods: methods.to_vec(),
        }
    }

    /// The arguments of a call whose parameter has an access that satisfies `is_used`, each with its bytes.
    /// The merge buffer counts as read.
    fn args<'c>(&self, call: &'c KernelCall, is_used: impl Fn(Access) -> bool) -> Vec<(&'c Slot, usize)> {
        let memory = self.schedule.kernels()[call.kernel].abi().memory();
        let used = call.args.iter().zip(memory).filter(|(_, (access, _))| is_used(*access));
        used.map(|(slot, (_, bytes))| (slot, bytes)).collect()
    }

    fn operand(&self, (slot, bytes): (&Slot, usize)) -> CallOperand {
        let (node, memory) = match *slot {
            Slot::Node(node) => (Some(node), OperandMemory::Context),
            Slot::Temp(temp) => {
                (self.schedule.temps().get(temp.0 as usize).map(|temp| temp.node), OperandMemory::Temporary)
            }
            Slot::Merge(node) => (Some(node), OperandMemory::MergeBuffer),
        };
        let name =
            |node: NodeRef| self.schedule.nodes().get(node.index()).map_or("?", |decl| decl.name.as_str());
        CallOperand { name: node.map_or("?", name).to_owned(), memory, bytes }
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

    fn methods(&self, kernel: usize) -> Vec<CompilationMethod> {
        match self.codegen.describe(&self.schedule.kernels()[kernel]) {
            Ok(methods) if methods.is_empty() => {
                vec![CompilationMethod::new(format!("{}'s only form", self.codegen.name()))]
            }
            Ok(methods) => methods,
            Err(error) => vec![CompilationMethod::new(error.to_string())],
        }
    }
}

#[cfg(all(test, feature = "cranelift"))]
mod tests {
    use assignments::{Assignments, builder};
    use lowered_ir::passes::runner::Trace;
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
        let backend = Backend::open_with(backend, &settings).expect("it is in every build");
        let compiled = backend.compile_assignments(assignments).expect("a valid program");
        let statements = Statements::of(assignments);
        let code = compiled.codes().next().expect("one code");
        let (codegen, schedule) = (backend.codegen(), code.schedule());
        let calls = CallsOf { codegen, schedule, nodes: compiled.nodes(), statements: &statements };
        calls.describe().iter().map(|call| format!("{call}\n")).collect()
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
        let program = assignment_text::parse(text, &[x.clone(), y, z.clone(), v, at, g]);
        let program = program.expect("a valid text").then(builder::copy(&z, &x).expect("same sizes"));
        let lines = ["line 1: v[i] := x[i] * 2", "line 2: y[i] := v[i] + 1", "line 3: g[i] := at[at[i]] + 1"];
        let report = reports("inline", &program);
        says(&report, &lines);
        says(
            &report,
            &[
                "kernel z_k0: 4000 flops",
                "writes y",
                "reads x",
                "4000 flops",
                "9 integer operations",
                "z[i0] =: x[i0];",
            ],
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
        let program = assignment_text::parse(text, &nodes).expect("a valid text");
        let report = reports("multicore", &program);
        says(&report, &["writes a2\n  reads a1\n  line 1: ", "writes b2\n  reads b1\n  line 2: "]);
        assert_eq!(report.matches("compiled as a vector program").count(), 2, "{report}");
    }

    #[test]
    fn products_are_told_from_other_parts() {
        let [a, b, c] = [("a", [64, 32]), ("b", [32, 48]), ("c", [64, 48])]
            .map(|(name, dims)| node(name, DType::F32, &dims, Some(MemoryMode::Materialized)));
        let text = "c[i,j] :+= a[i,k] * b[k,j]";
        let program = assignment_text::parse(text, &[a, b, c]).expect("a valid text");
        let report = reports("inline", &program);
        assert!(report.contains("line 1: c[i,j] :+= a[i,k] * b[k,j]"), "{report}");
        let backend = Backend::open("inline").expect("it is in every build");
        let has_plans = !backend.codegen().caps().contractions.is_empty();
        assert_eq!(report.contains("64x48x32 by microkernels"), has_plans, "{report}");
    }

    /// A routine of the loop IR has no statements; work and operands come from the IR alone.
    #[test]
    fn work_and_operands_come_from_the_ir() {
        let text = "routine @scale fast {
            node %0 \"x\" f32[1000] on_device
            node %1 \"n\" i32[1000] on_device
            node %2 \"y\" f32[1000] on_device
            for i0 in 0..1000 { %2[i0] := %0[i0] * 2.0f32 + 1.0f32 %1[i0] := %1[i0] + 1i32 }
          }";
        let routine = lowered_ir::text::parse(text).expect("a valid text");
        let backend = Backend::open_with("inline", &Settings::default()).expect("it is in every build");
        let schedule = backend.generator().schedule(&routine, &mut Trace::none()).expect("it is valid");
        let statements = Statements::default();
        let (codegen, schedule) = (backend.codegen(), &schedule);
        let calls = CallsOf { codegen, schedule, nodes: &[], statements: &statements }.describe();
        let flops: f64 = calls.iter().map(|call| call.cost.flops).sum();
        let bytes: f64 = calls.iter().map(|call| call.cost.bytes).sum();
        let integer_ops: f64 = calls.iter().map(|call| call.cost.integer_ops).sum();
        assert_eq!((flops, integer_ops, bytes), (2000.0, 1000.0, 16000.0));
        let operands = |of: fn(&CallDescription) -> &[CallOperand]| {
            let all = calls.iter().flat_map(of).map(|operand| (operand.name.as_str(), operand.bytes));
            all.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(operands(|call| &call.reads), [("n", 4000), ("x", 4000)]);
        assert_eq!(operands(|call| &call.writes), [("n", 4000), ("y", 4000)]);
        assert!(calls.iter().all(|call| call.statements.is_empty()
            && call.methods.iter().all(|method| method.not_vectorized.is_none())));
    }

    /// The statements of a function belong to the line that calls it.
    #[test]
    fn statements_of_functions_name_the_line_of_the_call() {
        let kept = Some(MemoryMode::Materialized);
        let [x, y] = ["x", "y"].map(|name| node(name, DType::F32, &[64, 64], kept));
        let program = assignment_text::parse("\ny[i,j] := softmax(x[i,j])", &[x, y]).expect("a valid text");
        let statements = Statements::of(&program);
        let nodes = program.nodes();
        let written: Vec<&TensorNode> = nodes.iter().filter(|node| node.name() == "y").collect();
        let found = statements.computing(written, &BTreeSet::new());
        let called = found.iter().filter(|statement| statement.call.is_some()).collect::<Vec<_>>();
        assert!(!called.is_empty(), "{found:?}");
        for statement in called {
            assert_eq!(statement.user_line, Some(2), "{statement:?}");
            assert!(
                statement.line.as_deref().is_some_and(|line| line.starts_with("prelude/")),
                "{statement:?}"
            );
        }
    }
}
