//! The numbers of log lines.

use std::collections::HashMap;

use lowered_ir::ir::{Stmt, walk};

/// The numbers of the lines that a kernel logs, as [`KernelAbi::log`](crate::KernelAbi::log) lists them.
///
/// A line is found by its statement, because an emitter that unrolls loops emits a statement several times.
#[derive(Clone, Debug, Default)]
pub struct LineNumbers(HashMap<*const Stmt, usize>);

impl LineNumbers {
    /// Numbers the statements of a body that log.
    pub fn new(body: &[Stmt]) -> LineNumbers {
        let mut lines = HashMap::new();
        walk::stmts(body).for_each(|stmt| {
            if let Stmt::Log { .. } = stmt {
                lines.insert(std::ptr::from_ref(stmt), lines.len());
            }
        });
        LineNumbers(lines)
    }

    /// The number of a statement of the body; `None` for any other statement.
    pub fn get(&self, stmt: &Stmt) -> Option<usize> {
        self.0.get(&std::ptr::from_ref(stmt)).copied()
    }
}

#[cfg(test)]
mod tests {
    use lowered_ir::ir::{Stmt, walk};

    use super::LineNumbers;

    #[test]
    fn lines_are_numbered_as_the_abi_lists_them() {
        let text = "routine @r {
          log \"first\"
          for i0 in 0..2 { log \"second\" }
          log \"third\"
        }";
        let routine = lowered_ir::text::parse(text).expect("the text is valid");
        let numbers = LineNumbers::new(&routine.body);
        let mut found = Vec::new();
        walk::stmts(&routine.body).for_each(|stmt: &Stmt| found.extend(numbers.get(stmt)));
        assert_eq!(found, [0, 1, 2]);
        assert_eq!(lowered_ir::log::lines(&routine).len(), 3);
    }
}
