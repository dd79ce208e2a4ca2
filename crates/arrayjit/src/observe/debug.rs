//! Reports on standard error: the levels of the setting `debug` and the filter of `dump`, as
//! `docs/debugging.md` describes them.

use std::{fmt::Display, sync::Arc, time::Duration};

use assignments::Warning;
use device_runtime::Device;
use lowered_ir::{ir::LoweredRoutine, text};
use tnode::TensorNode;

use super::{
    dump::DumpFolder,
    profile::{CallsOf, Statements},
    run_memory::RunMemory,
};
use crate::{
    error::OpenError,
    fallback::Fallback,
    observer::Compilation,
    settings::{DebugSettings, DumpFilter},
};

/// Prints the reports that the settings `debug` and `dump` select.
#[derive(Clone, Debug)]
pub(crate) struct DebugReporter {
    level: u8,
    dump: Option<DumpFilter>,
    folder: Option<Arc<DumpFolder>>,
}

impl DebugReporter {
    pub(crate) fn new(settings: &DebugSettings) -> DebugReporter {
        let folder = DumpFolder::open(&settings.dump_folder).map(Arc::new);
        DebugReporter { level: settings.level, dump: DumpFilter::parse(&settings.dump), folder }
    }

    /// Whether the settings select no report.
    pub(crate) fn is_silent(&self) -> bool {
        self.level == 0 && self.dump.is_none()
    }

    /// Reports the device, on level 1.
    pub(crate) fn device(&self, device: &Device) {
        self.report(1, || format!("device {}", device.name()));
    }

    /// Reports, on level 1, a backend that `auto` tried before the one that it opened, and why it does not
    /// open.
    pub(crate) fn skipped(&self, name: &str, why: &OpenError) {
        self.report(1, || format!("auto skips {name}: {why}"));
    }

    /// Reports the time of each stage of a routine's compilation, on level 2.
    fn times(&self, routine: &str, stages: &[(&'static str, Duration)]) {
        self.report(2, || {
            let times =
                stages.iter().map(|(stage, took)| format!("{stage} {:.2} ms", took.as_secs_f64() * 1e3));
            format!("routine {routine}: {}", times.collect::<Vec<_>>().join(", "))
        });
    }

    /// Reports the result of measuring the forms of a kernel, on level 2.
    pub(crate) fn tuned(&self, kernel: &str, result: &dyn Display) {
        self.report(2, || format!("kernel {kernel}: {result}"));
    }

    /// Reports the times of a compiled routine, the statements that fall back, and each part.
    pub(crate) fn compiled(&self, compilation: &Compilation<'_>, statements: &Statements) {
        let Compilation { name, parts, fallbacks, nodes, took, .. } = compilation;
        self.times(name, took);
        fallbacks.iter().for_each(|fallback| self.fallback(fallback));
        for (at, part) in parts.iter().enumerate() {
            let which = match fallbacks.is_empty() {
                true => (*name).to_owned(),
                false => format!("{name}, part {} on {}", at + 1, part.target.name),
            };
            let (codegen, schedule) = (&*part.target.codegen, part.code.schedule());
            self.part(&which, &CallsOf { codegen, schedule, nodes, statements });
        }
    }

    /// Reports a compiled routine, or a part of one, on level 1; each kernel call on level 2; the generated
    /// code of each kernel on level 4; its machine instructions on level 7. The code is dumped like a pass.
    fn part(&self, routine: &str, calls: &CallsOf<'_>) {
        let CallsOf { codegen, schedule, .. } = *calls;
        self.report(1, || {
            let (kernels, calls, temps) =
                (schedule.kernels().len(), schedule.calls().len(), schedule.temp_bytes());
            format!("routine {routine}: {kernels} kernels, {calls} calls, {temps} temporary bytes")
        });
        let descriptions = if self.shows_calls() { calls.describe() } else { Vec::new() };
        for (at, call) in descriptions.iter().enumerate() {
            self.report(2, || {
                format!("routine {routine}, call {} of {}, {call}", at + 1, descriptions.len())
            });
        }
        for kernel in schedule.kernels() {
            let name = &kernel.abi().name;
            let is_dumped = self.is_dumped("codegen", name);
            let Some(listing) =
                (self.level >= 4 || is_dumped).then(|| codegen.listing(kernel).ok()).flatten()
            else {
                continue;
            };
            // The interpreter has no code.
            if is_dumped && !listing.source.is_empty() {
                self.dump("codegen", name, &listing.source);
            }
            self.report(4, || format!("code of {name}:\n{}", listing.source));
            self.report(7, || format!("instructions of {name}:\n{}", listing.machine_code));
        }
    }

    /// Reports the memory of a linked routine's runs, on level 2.
    pub(crate) fn memory(&self, routine: &str, memory: impl FnOnce() -> RunMemory) {
        self.report(2, || format!("routine {routine}: {}", memory()));
    }

    /// Reports legal but suspicious parts of a routine, on level 1.
    pub(crate) fn warnings(&self, routine: &str, warnings: &[Warning]) {
        for warning in warnings {
            self.report(1, || format!("routine {routine}, warning: {warning}"));
        }
    }

    /// Reports statements that fall back and the reason, on level 1, and their IR, on level 4.
    fn fallback(&self, fallback: &Fallback) {
        self.report(1, || fallback.to_string());
        self.report(4, || format!("statements that fall back:\n{}", fallback.text));
    }

    /// Reports, on level 1, that runs of a routine which are started in some way write no capsules.
    pub(crate) fn not_watched(&self, routine: &str, how: &str) {
        self.report(1, || format!("routine {routine}: a run {how} writes no capsule"));
    }

    /// Reports the memory mode of each node and the reason, on level 3.
    pub(crate) fn modes<'a>(&self, nodes: impl IntoIterator<Item = &'a TensorNode>) {
        for node in nodes {
            self.report(3, || node.explain());
        }
    }

    /// Dumps the routine after `lower` and `optimize` and each kernel after `schedule`, on level 5, and the
    /// routine after every pass, on level 6. Without a folder, a dump that the filter selects is printed on
    /// every level. If there is a folder, the dumps that the filter selects, or all dumps without a filter,
    /// are written to files in it instead.
    pub(crate) fn pass(&self, name: &str, routine: &LoweredRoutine) {
        let level = if matches!(name, "lower" | "optimize" | "schedule") { 5 } else { 6 };
        let is_dumped = self.is_dumped(name, &routine.name);
        if is_dumped {
            self.dump(name, &routine.name, &text::print(routine));
        }
        if self.level >= level && !(is_dumped && self.folder.is_none()) {
            print(&format_args!("after {name}:\n{}", text::print(routine)));
        }
    }

    /// Whether the settings ask for this dump: the filter selects it, or there is a folder and no filter.
    fn is_dumped(&self, pass: &str, name: &str) -> bool {
        self.dump.as_ref().map_or(self.folder.is_some(), |dump| dump.selects(pass, name))
    }

    /// Writes a dump to a file of the folder, or prints it if there is no folder.
    fn dump(&self, pass: &str, name: &str, text: &str) {
        match &self.folder {
            None => print(&format_args!("after {pass}:\n{text}")),
            Some(folder) => {
                if let Err(error) = folder.write(pass, name, text) {
                    print(&format_args!("dump after {pass}: {error}"));
                }
            }
        }
    }

    /// Whether [`DebugReporter::compiled`] prints calls.
    pub(crate) fn shows_calls(&self) -> bool {
        self.level >= 2
    }

    /// Whether [`DebugReporter::pass`] may print anything.
    pub(crate) fn shows_passes(&self) -> bool {
        self.level >= 5 || self.dump.is_some() || self.folder.is_some()
    }

    fn report(&self, level: u8, message: impl FnOnce() -> String) {
        if self.level >= level {
            print(&message());
        }
    }
}

fn print(message: &dyn Display) {
    eprintln!("arrayjit: {message}");
}
