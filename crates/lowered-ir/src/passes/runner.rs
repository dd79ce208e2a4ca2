//! How passes run on a routine one after another, and who sees what they made of it.

use crate::ir::LoweredRoutine;

use super::regions::Regions;

/// What is called with a routine after a pass, and with the name of the pass.
type OnPass<'a> = dyn FnMut(&str, &LoweredRoutine) + 'a;

/// The function that sees a routine after each pass; or none.
pub struct Trace<'a>(Option<&'a mut OnPass<'a>>);

impl<'a> Trace<'a> {
    /// Nobody sees the routine.
    pub fn none() -> Trace<'a> {
        Trace(None)
    }

    /// The function sees the routine.
    pub fn new(on_pass: &'a mut OnPass<'a>) -> Trace<'a> {
        Trace(Some(on_pass))
    }

    /// The function sees the routine if somebody wants to see it.
    pub fn when(is_wanted: bool, on_pass: &'a mut OnPass<'a>) -> Trace<'a> {
        if is_wanted { Trace::new(on_pass) } else { Trace::none() }
    }

    /// Shows the routine after a pass.
    pub fn show(&mut self, pass: &str, routine: &LoweredRoutine) {
        if let Some(on_pass) = &mut self.0 {
            on_pass(pass, routine);
        }
    }

    fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

/// A routine on its way through passes. Passes on regions that follow each other find the routine divided; it
/// is put together for other passes, and for a trace.
pub struct PassRunner<'a, 't> {
    routine: LoweredRoutine,
    regions: Option<Regions>,
    trace: &'a mut Trace<'t>,
}

impl<'a, 't> PassRunner<'a, 't> {
    /// A routine before its first pass.
    pub fn new(routine: LoweredRoutine, trace: &'a mut Trace<'t>) -> PassRunner<'a, 't> {
        PassRunner { routine, regions: None, trace }
    }

    /// The routine after the passes so far.
    pub fn routine(&mut self) -> &LoweredRoutine {
        self.whole()
    }

    /// Runs a pass on the routine.
    pub fn run<T>(&mut self, name: &str, pass: impl FnOnce(&mut LoweredRoutine) -> T) -> T {
        let result = pass(self.whole());
        self.trace.show(name, &self.routine);
        result
    }

    /// Runs a pass on each of the routine's [regions](super::regions).
    pub fn run_in_regions(&mut self, name: &str, pass: &mut dyn FnMut(&mut LoweredRoutine)) {
        let regions = self.regions.get_or_insert_with(|| Regions::of(&mut self.routine));
        regions.each(&mut self.routine, pass);
        if !self.trace.is_none() {
            self.whole();
            self.trace.show(name, &self.routine);
        }
    }

    /// The routine after all passes.
    pub fn finish(mut self) -> LoweredRoutine {
        self.whole();
        self.routine
    }

    fn whole(&mut self) -> &mut LoweredRoutine {
        if let Some(regions) = self.regions.take() {
            regions.join(&mut self.routine);
        }
        &mut self.routine
    }
}
