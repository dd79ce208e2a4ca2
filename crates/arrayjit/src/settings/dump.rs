//! The value of the setting `dump`: a filter of passes and routines.

use lowered_ir::passes::PASSES;
use scheduling::PASS_NAMES;

/// The names of passes in dumps, in order.
pub(super) fn pass_names() -> impl Iterator<Item = &'static str> {
    let passes = PASSES.iter().map(|pass| pass.name);
    let optimized = ["lower", "import"].into_iter().chain(passes).chain(["optimize", "log"]);
    optimized.chain(PASS_NAMES.iter().copied()).chain(["schedule", "divide", "codegen"])
}

/// The name of the pass that a dump filter selects, if no pass has this name.
pub(super) fn unknown_pass(dump: &str) -> Option<&str> {
    let pass = dump.split_once('@').map_or(dump, |(pass, _)| pass);
    let is_known = |pass: &str| pass_names().any(|name| name == pass);
    DumpFilter::parse(dump)?.pass().filter(|pass| !is_known(pass))?;
    Some(pass)
}

/// Selects dumps by pass and routine: `PASS`, `PASS@ROUTINE` or `*@ROUTINE`.
#[derive(Clone, Debug)]
pub(crate) struct DumpFilter {
    /// A pass, or `*`.
    pass: String,
    /// A routine, or `*`.
    routine: String,
}

impl DumpFilter {
    /// The filter of a setting; none if the setting is empty.
    pub(crate) fn parse(text: &str) -> Option<DumpFilter> {
        let (pass, routine) = text.split_once('@').unwrap_or((text, "*"));
        let filter = || DumpFilter { pass: pass.to_owned(), routine: routine.to_owned() };
        (!text.is_empty()).then(filter)
    }

    /// The pass, unless every pass is selected.
    pub(crate) fn pass(&self) -> Option<&str> {
        Some(self.pass.as_str()).filter(|pass| !pass.is_empty() && *pass != "*")
    }

    /// Whether the filter selects the dump of a routine after a pass. A kernel, which is dumped after
    /// `schedule` and `codegen`, is selected by its own name and by the name of its routine.
    pub(crate) fn selects(&self, pass: &str, routine: &str) -> bool {
        let matches = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        matches(&self.pass, pass)
            && (matches(&self.routine, routine) || self.routine == routine_of(pass, routine))
    }
}

/// The name of the routine that a dump belongs to: kernels are named `ROUTINE_kN`.
pub(crate) fn routine_of<'n>(pass: &str, name: &'n str) -> &'n str {
    let kernel = name.rsplit_once("_k").filter(|_| matches!(pass, "schedule" | "codegen"));
    kernel.map_or(name, |(routine, _)| routine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_select_by_pass_and_routine() {
        let selects = |filter: &str, pass: &str, routine: &str| {
            DumpFilter::parse(filter).is_some_and(|filter| filter.selects(pass, routine))
        };
        assert!(selects("optimize@step", "optimize", "step"));
        assert!(!selects("optimize@step", "optimize", "other") && !selects("optimize@step", "lower", "step"));
        assert!(selects("schedule@step", "schedule", "step_k0") && selects("schedule", "schedule", "a_k1"));
        assert!(!selects("schedule@step", "schedule", "other_k0"));
        assert!(selects("*@step", "fuse_loops", "step"));
        assert!(
            !selects("lower@step", "lower", "step_k0"),
            "a routine whose name looks like that of a kernel"
        );
        assert!(DumpFilter::parse("").is_none());
    }
}
