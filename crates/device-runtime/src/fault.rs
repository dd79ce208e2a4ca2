//! A driver around another one that makes things go wrong, by seed: to test what stands on a driver.
//!
//! It keeps the contract of [`Driver`] at all times: every fault is one that a device may have. Faults are decided when a task
//! is handed over, from the seed and the stream's name, so a program that uses each stream from one thread has the same
//! faults in every run.
//!
//! What goes to the driver inside is the caller's task, a part of it, or a kernel without memory. Handles of memory, modules and
//! kernels are those of the driver inside.
#![allow(unsafe_code, reason = "implements `Driver`, and launches a kernel without memory")]

mod plan;
mod stream;
#[cfg(test)]
mod tests;
mod work;

use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    thread,
};

use codegen_core::{Artifact, Caps};

pub use self::plan::{FaultCounts, FaultPlan};
use self::{
    plan::{Dice, Fault, Injector},
    stream::{Admission, Event, Stream},
    work::{Kind, delaying_kernel},
};
use crate::{
    checked::{
        BoundKernel, CopyInTask, CopyOutTask, CopyTask, FillTask, KernelArgs, LaunchTask, SequenceTask,
    },
    driver::{
        After, BoundHandle, Driver, EventHandle, HostTask, KernelHandle, Mark, ModuleHandle, PoolHandle,
        PoolId, SequenceHandle, StreamHandle, StreamStrategy,
    },
    error::{DriverError, Failure},
    pool::lock,
};

/// At most so many questions more than needed are answered with "pending" where an event is done late.
const LATENESS: u32 = 20;

/// A driver that does what another one does, with faults.
pub struct FaultDevice {
    inner: Arc<dyn Driver>,
    injector: Injector,
    /// Decides about what happens outside of streams.
    dice: Dice,
    /// A kernel that takes the plan's delay, where the driver inside runs host code.
    delay: Option<BoundKernel>,
    streams: Mutex<Vec<Weak<Stream>>>,
    /// Set once the device is lost; shared with its streams, whose events fail then.
    lost: Arc<OnceLock<DriverError>>,
}

impl FaultDevice {
    /// A driver around another one.
    pub fn new(inner: Arc<dyn Driver>, plan: FaultPlan) -> FaultDevice {
        FaultDevice {
            delay: delaying_kernel(&*inner, plan.delay).ok(),
            inner,
            dice: Dice::new(plan.seed, "device"),
            injector: Injector::new(plan),
            streams: Mutex::default(),
            lost: Arc::default(),
        }
    }

    /// How many faults there were so far.
    pub fn counts(&self) -> FaultCounts {
        self.injector.counts()
    }

    /// The failures of the tasks that were made to fail, in order. Each is different from all others.
    pub fn failures(&self) -> Vec<Failure> {
        self.injector.failures()
    }

    /// Begins or stops injecting; a device begins active. Faults that are there stay.
    pub fn set_active(&self, active: bool) {
        self.injector.set_active(active);
    }

    /// Loses the device, as [`FaultPlan::loss`] does: nothing of it runs any more when the call returns, and every later call
    /// fails.
    pub fn lose(&self) {
        let driver = self.inner.name().to_owned();
        let mut first = false;
        self.lost.get_or_init(|| {
            first = true;
            DriverError::Lost { driver, message: "the loss was injected".to_owned() }
        });
        if first {
            self.injector.count(Fault::Loss);
            self.drain();
        }
    }

    /// Waits until the driver inside has nothing left to do, since a device that is lost does nothing.
    fn drain(&self) {
        let streams: Vec<_> = lock(&self.streams).iter().filter_map(Weak::upgrade).collect();
        for stream in streams {
            // Failures are nobody's concern now. A task of the stream itself is not waited for: it is the caller.
            let _ = self.inner.record(&stream.inner).and_then(|event| self.inner.sync(&event));
        }
    }

    /// # Errors
    ///
    /// That the device is lost.
    fn alive(&self) -> Result<(), DriverError> {
        self.lost.get().map_or(Ok(()), |lost| Err(lost.clone()))
    }

    /// Hands a task over, or some of it, or nothing. `run` takes the driver's stream and how many of the bytes or kernels to do;
    /// `name` says what fails behind so many of them.
    fn task<'n>(
        &self,
        stream: &StreamHandle,
        name: impl Fn(usize) -> &'n str,
        kind: Kind,
        run: impl FnOnce(&StreamHandle, usize) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let stream: &Arc<Stream> = stream.get()?;
        self.alive()?;
        if let Admission::Skip = stream.admit(&*self.inner)? {
            return Ok(());
        }
        let happens = |fault| self.injector.happens(fault, &stream.dice);
        let (loss, failure, slow) = (
            happens(Fault::Loss),
            happens(Fault::TaskFailure),
            matches!(kind, Kind::Copy(_)) && happens(Fault::SlowCopy),
        );
        if loss {
            self.lose();
            return self.alive();
        }
        if slow {
            self.slow_down(stream)?;
        }
        if failure {
            return self.fail(stream, name, kind, run);
        }
        run(&stream.inner, kind.whole())
    }

    /// Does nothing, a half, or all of a task, and fails the stream.
    fn fail<'n>(
        &self,
        stream: &Stream,
        name: impl Fn(usize) -> &'n str,
        kind: Kind,
        run: impl FnOnce(&StreamHandle, usize) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let done = [0, kind.half(), kind.whole()][stream.dice.below(3) as usize];
        if done > 0 {
            run(&stream.inner, done)?;
        }
        let failure = self.injector.failure(|number| {
            Failure::new(stream.name.as_str(), name(done), format!("failure {number} that was injected"))
        });
        stream.fail(&*self.inner, failure);
        Ok(())
    }

    /// Makes the stream wait for a while before its next task; where it runs no host code, the caller waits instead.
    fn slow_down(&self, stream: &Stream) -> Result<(), DriverError> {
        match &self.delay {
            Some(kernel) => {
                // SAFETY: the kernel has no memory parameters, so no task conflicts with it.
                let task = unsafe { LaunchTask::new(kernel, &[])? };
                self.inner.launch(&stream.inner, task)
            }
            None => {
                thread::sleep(self.injector.plan.delay);
                Ok(())
            }
        }
    }
}

// SAFETY: memory, kernels and tasks are the driver's inside, which gets each task once, in whole or in part, on the stream it
// is for, and every wait; an event is done only after the one inside.
unsafe impl Driver for FaultDevice {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn static_properties(&self) -> Vec<(&'static str, String)> {
        let mut properties = self.inner.static_properties();
        properties.push(("faults", format!("{:?}", self.injector.plan)));
        properties
    }

    fn initialize(&self, strategy: StreamStrategy) {
        self.inner.initialize(strategy);
    }

    fn is_initialized(&self) -> bool {
        self.inner.is_initialized()
    }

    fn suggested_num_streams(&self) -> usize {
        self.inner.suggested_num_streams()
    }

    fn used_memory(&self) -> usize {
        self.inner.used_memory()
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        let Ok(stream) = stream.get::<Arc<Stream>>() else { return self.inner.debug_info(stream) };
        let failure = stream.failure().map_or_else(String::new, |failure| format!(", {failure}"));
        let lost = self.lost.get().map_or_else(String::new, |lost| format!(", {lost}"));
        format!("{}{failure}{lost}", self.inner.debug_info(&stream.inner))
    }

    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<PoolHandle, DriverError> {
        self.alive()?;
        if self.injector.happens(Fault::OutOfMemory, &self.dice) {
            return Err(DriverError::OutOfMemory { requested: bytes, used: self.used_memory() });
        }
        self.inner.alloc_pool(pool, bytes)
    }

    fn export(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        self.alive()?;
        self.inner.export(memory)
    }

    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        self.alive()?;
        if self.injector.happens(Fault::RefusedPeer, &self.dice) {
            let driver = self.name().to_owned();
            return Err(DriverError::NoPeerAccess { driver, what: "memory of others, this time" });
        }
        self.inner.import(memory)
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle, DriverError> {
        self.alive()?;
        let inner = self.inner.new_stream(name)?;
        let stream = Arc::new(Stream::new(inner, name, self.injector.plan.seed, Arc::clone(&self.lost)));
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&stream));
        Ok(StreamHandle::new(stream))
    }

    fn drop_stream(&self, stream: StreamHandle) {
        if let Ok(stream) = stream.get::<Arc<Stream>>() {
            self.inner.drop_stream(stream.inner.clone());
            if self.alive().is_ok() {
                stream.end();
            }
        }
    }

    fn reset_stream(&self, stream: &StreamHandle) -> Result<(), DriverError> {
        let stream: &Arc<Stream> = stream.get()?;
        self.alive()?;
        self.inner.reset_stream(&stream.inner)?;
        stream.forgive();
        Ok(())
    }

    fn is_idle(&self, stream: &StreamHandle) -> bool {
        stream.get::<Arc<Stream>>().is_ok_and(|stream| self.inner.is_idle(&stream.inner))
    }

    fn load(&self, artifact: &Artifact) -> Result<ModuleHandle, DriverError> {
        self.alive()?;
        self.inner.load(artifact)
    }

    fn kernel(&self, module: &ModuleHandle, index: usize) -> Result<KernelHandle, DriverError> {
        self.alive()?;
        self.inner.kernel(module, index)
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle, DriverError> {
        self.alive()?;
        self.inner.bind(args)
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<(), DriverError> {
        let name = task.name();
        self.task(stream, |_| name, Kind::Launch(1), |stream, _| self.inner.launch(stream, task))
    }

    fn sequence(&self, kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>, DriverError> {
        self.alive()?;
        self.inner.sequence(kernels)
    }

    /// One task, of which the kernels in front of one that fails may have run.
    fn launch_sequence(&self, stream: &StreamHandle, task: SequenceTask<'_>) -> Result<bool, DriverError> {
        let kernels = task.kernels();
        let name = |done: usize| kernels.get(done).or(kernels.last()).map_or("", BoundKernel::name);
        let mut together = true;
        self.task(stream, name, Kind::Launch(kernels.len()), |stream, count| {
            if count == kernels.len() {
                together = self.inner.launch_sequence(stream, task)?;
                return Ok(());
            }
            for launch in task.into_launches().take(count) {
                if self.inner.launch(stream, launch).is_err() {
                    // The task fails here as it is; nobody is to take it for one of which nothing was enqueued.
                    break;
                }
            }
            Ok(())
        })?;
        Ok(together)
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<(), DriverError> {
        let kind = Kind::Copy(task.dst().bytes());
        self.task(stream, |_| "zero", kind, |stream, bytes| self.inner.memset_zero(stream, task.up_to(bytes)))
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<(), DriverError> {
        let kind = Kind::Copy(task.dst().bytes());
        self.task(
            stream,
            |_| "copy from host",
            kind,
            |stream, bytes| self.inner.copy_in(stream, task.up_to(bytes)),
        )
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<(), DriverError> {
        let kind = Kind::Copy(task.src().bytes());
        self.task(
            stream,
            |_| "copy to host",
            kind,
            |stream, bytes| self.inner.copy_out(stream, task.up_to(bytes)),
        )
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<(), DriverError> {
        let kind = Kind::Copy(task.dst().bytes());
        self.task(stream, |_| "copy", kind, |stream, bytes| self.inner.copy(stream, task.up_to(bytes)))
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle, DriverError> {
        let stream: &Arc<Stream> = stream.get()?;
        self.alive()?;
        let inner = self.inner.record(&stream.inner)?;
        let late = self.injector.happens(Fault::LateCompletion, &stream.dice);
        let late = if late { 1 + stream.dice.below(LATENESS) } else { 0 };
        Ok(EventHandle::new(stream.event(inner, late)))
    }

    /// The driver inside learns of the wait, but not of failures it knows nothing of, so those cross here.
    fn wait(&self, stream: &StreamHandle, event: &EventHandle, after: After) -> Result<(), DriverError> {
        let stream: &Arc<Stream> = stream.get()?;
        self.alive()?;
        let Ok(event) = event.get::<Event>() else { return self.inner.wait(&stream.inner, event, after) };
        let own = Arc::ptr_eq(stream, &event.stream);
        let failure = event.failure().filter(|_| after == After::Data && !own);
        let after = if stream.failure().is_some() { After::Order } else { after };
        self.inner.wait(&stream.inner, &event.inner, after)?;
        failure.into_iter().for_each(|failure| stream.fail(&*self.inner, failure));
        Ok(())
    }

    fn host_task(&self, stream: &StreamHandle, task: HostTask) -> Result<(), DriverError> {
        let name = task.name.clone();
        self.task(stream, |_| &name, Kind::Launch(1), |stream, _| self.inner.host_task(stream, task))
    }

    fn mark(&self, stream: &StreamHandle, mark: Mark) -> Result<(), DriverError> {
        self.alive()?;
        self.inner.mark(&stream.get::<Arc<Stream>>()?.inner, mark)
    }

    fn is_done(&self, event: &EventHandle) -> Result<bool, DriverError> {
        let event: &Event = event.get()?;
        let inner = match self.inner.is_done(&event.inner) {
            Ok(false) => return Ok(false),
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        if event.pretends() {
            return Ok(false);
        }
        event.outcome(inner).map(|()| true)
    }

    fn sync(&self, event: &EventHandle) -> Result<(), DriverError> {
        let event: &Event = event.get()?;
        event.outcome(self.inner.sync(&event.inner))
    }
}
