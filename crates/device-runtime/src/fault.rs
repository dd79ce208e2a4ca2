//! A driver around another one that injects faults, by seed, for tests of code that uses a driver.
//!
//! It always satisfies the contract of [`Driver`]: every injected fault is one that a real device may have.
//! Faults are decided when a task is submitted, from the seed and the stream's name, so a program that uses
//! each stream from one thread has the same faults in every run.
//!
//! The inner driver receives the caller's task or a part of it. To delay a stream, this driver also launches
//! a kernel without memory parameters on it. The handles of memory, modules and kernels come from the inner
//! driver.
#![allow(unsafe_code, reason = "implements `Driver`, and launches a kernel without memory")]

mod plan;
mod stream;
#[cfg(test)]
mod tests;
mod work;

use std::{
    sync::{Arc, OnceLock},
    thread,
};

use codegen_core::Artifact;

pub use self::plan::{FaultCounts, FaultPlan};
use self::{
    plan::{Fault, FaultDice, Injector},
    stream::{Admission, FaultEvent, FaultStream},
    work::{TaskSize, delaying_kernel},
};
use crate::{
    checked::{
        BoundKernel, CopyInTask, CopyOutTask, CopyTask, DeviceAccessTask, FillTask, HostAccessTask,
        KernelArgs, LaunchTask, SequenceTask,
    },
    driver::{
        BoundHandle, Driver, DriverDescription, EventHandle, HostTask, KernelHandle, Mark, PoolHandle,
        PoolId, SequenceHandle, StreamHandle, StreamStrategy, WaitKind,
    },
    error::{DriverError, Failure, Result},
    stream_registry::StreamRegistry,
    timing::KernelTimer,
};

/// Maximum number of extra polls to which a late event answers that it is pending.
const MAX_EXTRA_POLLS: u32 = 20;

/// A driver that passes calls to another one and injects faults.
pub struct FaultDevice {
    inner: Arc<dyn Driver>,
    /// The inner driver's description with the plan as a further property.
    description: DriverDescription,
    injector: Injector,
    /// Decides about faults outside of streams.
    dice: FaultDice,
    /// A kernel that sleeps for the plan's delay, if the inner driver runs host code.
    delay: Option<BoundKernel>,
    streams: StreamRegistry<FaultStream>,
    /// Set once the device is lost; its streams share it, because their events fail then.
    lost: Arc<OnceLock<DriverError>>,
}

impl FaultDevice {
    /// A device that injects the faults of `plan` around `inner`.
    pub fn new(inner: Arc<dyn Driver>, plan: FaultPlan) -> FaultDevice {
        let mut description = inner.description().clone();
        description.properties.push(("faults", format!("{plan:?}")));
        FaultDevice {
            description,
            delay: delaying_kernel(&*inner, plan.delay).ok(),
            inner,
            dice: FaultDice::new(plan.seed, "device"),
            injector: Injector::new(plan),
            streams: StreamRegistry::default(),
            lost: Arc::default(),
        }
    }

    /// The number of injected faults so far, by kind.
    pub fn counts(&self) -> FaultCounts {
        self.injector.counts()
    }

    /// The failures that were injected into tasks, in order. All of them are different.
    pub fn failures(&self) -> Vec<Failure> {
        self.injector.failures()
    }

    /// Starts or stops injecting faults; a new device is active. Existing faults remain.
    pub fn set_active(&self, active: bool) {
        self.injector.set_active(active);
    }

    /// Makes the device lost, as [`FaultPlan::device_lost`] does: when the call returns, none of its tasks
    /// runs any more, and every later call fails.
    pub fn lose(&self) {
        let driver = self.inner.name().to_owned();
        let mut first = false;
        self.lost.get_or_init(|| {
            first = true;
            DriverError::Lost { driver, message: "the loss was injected".to_owned() }
        });
        if first {
            self.injector.count(Fault::DeviceLost);
            self.drain();
        }
    }

    /// Waits until the inner driver is idle, since a lost device runs nothing.
    fn drain(&self) {
        for stream in self.streams.live() {
            // Failures are irrelevant here. If a task of the stream calls this, the inner driver rejects the
            // wait.
            let _ = self.inner.record(&stream.inner).and_then(|event| self.inner.sync(&event));
        }
    }

    /// # Errors
    ///
    /// [`DriverError::Lost`] if the device is lost.
    fn check_alive(&self) -> Result<()> {
        self.lost.get().map_or(Ok(()), |lost| Err(lost.clone()))
    }

    /// Submits a task, a part of it, or nothing. `run` takes the driver's stream and the number of bytes or
    /// kernels to submit; `name` names the task that fails after that many.
    fn task<'n>(
        &self,
        stream: &StreamHandle,
        name: impl Fn(usize) -> &'n str,
        size: TaskSize,
        run: impl FnOnce(&StreamHandle, usize) -> Result<()>,
    ) -> Result<()> {
        let stream: &Arc<FaultStream> = stream.get()?;
        self.check_alive()?;
        if let Admission::Skip = stream.admit(&*self.inner)? {
            return Ok(());
        }
        let happens = |fault| self.injector.happens(fault, &stream.dice);
        let (loss, failure, slow) = (
            happens(Fault::DeviceLost),
            happens(Fault::TaskFailure),
            matches!(size, TaskSize::Copy(_)) && happens(Fault::SlowCopy),
        );
        if loss {
            self.lose();
            return self.check_alive();
        }
        if slow {
            self.slow_down(stream)?;
        }
        if failure {
            return self.fail(stream, name, size, run);
        }
        run(&stream.inner, size.whole())
    }

    /// Submits nothing, a half, or all of a task, and fails the stream.
    fn fail<'n>(
        &self,
        stream: &FaultStream,
        name: impl Fn(usize) -> &'n str,
        size: TaskSize,
        run: impl FnOnce(&StreamHandle, usize) -> Result<()>,
    ) -> Result<()> {
        let done = [0, size.half(), size.whole()][stream.dice.below(3) as usize];
        if done > 0 {
            run(&stream.inner, done)?;
        }
        let failure = self.injector.failure(|number| {
            Failure::new(stream.name.as_str(), name(done), format!("failure {number} that was injected"))
        });
        stream.fail(&*self.inner, failure);
        Ok(())
    }

    /// Delays the stream before its next task. If the driver runs no host code, the caller waits instead.
    fn slow_down(&self, stream: &FaultStream) -> Result<()> {
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

// SAFETY: the inner driver makes the memory and the kernels. It gets every task once, entirely or in part, on
// the stream for which the task was made, and every wait. An event is done only after the inner event.
unsafe impl Driver for FaultDevice {
    fn description(&self) -> &DriverDescription {
        &self.description
    }

    fn suggested_num_streams(&self, strategy: StreamStrategy) -> usize {
        self.inner.suggested_num_streams(strategy)
    }

    fn used_memory(&self) -> usize {
        self.inner.used_memory()
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        let Ok(stream) = stream.get::<Arc<FaultStream>>() else { return self.inner.debug_info(stream) };
        let failure = stream.failure().map_or_else(String::new, |failure| format!(", {failure}"));
        let lost = self.lost.get().map_or_else(String::new, |lost| format!(", {lost}"));
        format!("{}{failure}{lost}", self.inner.debug_info(&stream.inner))
    }

    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<PoolHandle> {
        self.check_alive()?;
        if self.injector.happens(Fault::OutOfMemory, &self.dice) {
            return Err(DriverError::OutOfMemory { requested: bytes, used: self.used_memory() });
        }
        self.inner.alloc_pool(pool, bytes)
    }

    fn export(&self, memory: &PoolHandle) -> Result<PoolHandle> {
        self.check_alive()?;
        self.inner.export(memory)
    }

    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle> {
        self.check_alive()?;
        if self.injector.happens(Fault::RejectedPeer, &self.dice) {
            let driver = self.name().to_owned();
            return Err(DriverError::NoPeerAccess { driver, what: "memory of others, this time" });
        }
        self.inner.import(memory)
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle> {
        self.check_alive()?;
        let inner = self.inner.new_stream(name)?;
        let stream = Arc::new(FaultStream::new(inner, name, self.injector.plan.seed, Arc::clone(&self.lost)));
        self.streams.insert(&stream);
        Ok(StreamHandle::new(stream))
    }

    fn drop_stream(&self, stream: StreamHandle) {
        if let Ok(stream) = stream.get::<Arc<FaultStream>>() {
            self.inner.drop_stream(stream.inner.clone());
            if self.check_alive().is_ok() {
                stream.end();
            }
        }
    }

    fn reset_stream(&self, stream: &StreamHandle) -> Result<()> {
        let stream: &Arc<FaultStream> = stream.get()?;
        self.check_alive()?;
        self.inner.reset_stream(&stream.inner)?;
        stream.clear_failure();
        Ok(())
    }

    fn is_idle(&self, stream: &StreamHandle) -> bool {
        stream.get::<Arc<FaultStream>>().is_ok_and(|stream| self.inner.is_idle(&stream.inner))
    }

    fn load(&self, artifact: &Artifact) -> Result<Vec<KernelHandle>> {
        self.check_alive()?;
        self.inner.load(artifact)
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle> {
        self.check_alive()?;
        self.inner.bind(args)
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<()> {
        let name = task.name();
        self.task(stream, |_| name, TaskSize::Launch(1), |stream, _| self.inner.launch(stream, task))
    }

    fn launch_timed(&self, stream: &StreamHandle, task: LaunchTask<'_>, timer: KernelTimer) -> Result<bool> {
        let (name, mut is_timed) = (task.name(), true);
        self.task(
            stream,
            |_| name,
            TaskSize::Launch(1),
            |stream, _| {
                is_timed = self.inner.launch_timed(stream, task, timer)?;
                Ok(())
            },
        )?;
        Ok(is_timed)
    }

    fn sequence(&self, kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>> {
        self.check_alive()?;
        self.inner.sequence(kernels)
    }

    /// A sequence counts as one task: if it fails, the kernels before the failing one may have run.
    fn launch_sequence(&self, stream: &StreamHandle, task: SequenceTask<'_>) -> Result<bool> {
        let kernels = task.kernels();
        let name = |done: usize| kernels.get(done).or(kernels.last()).map_or("", BoundKernel::name);
        let mut together = true;
        self.task(stream, name, TaskSize::Launch(kernels.len()), |stream, count| {
            if count == kernels.len() {
                together = self.inner.launch_sequence(stream, task)?;
                return Ok(());
            }
            for launch in task.into_launches().take(count) {
                if self.inner.launch(stream, launch).is_err() {
                    // The task fails here anyway. Returning false would claim that nothing was submitted.
                    break;
                }
            }
            Ok(())
        })?;
        Ok(together)
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<()> {
        let size = TaskSize::Copy(task.dst().bytes());
        self.task(stream, |_| "zero", size, |stream, bytes| self.inner.memset_zero(stream, task.up_to(bytes)))
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<()> {
        let size = TaskSize::Copy(task.dst().bytes());
        self.task(
            stream,
            |_| "copy from host",
            size,
            |stream, bytes| self.inner.copy_in(stream, task.up_to(bytes)),
        )
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<()> {
        let size = TaskSize::Copy(task.src().bytes());
        self.task(
            stream,
            |_| "copy to host",
            size,
            |stream, bytes| self.inner.copy_out(stream, task.up_to(bytes)),
        )
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<()> {
        let size = TaskSize::Copy(task.dst().bytes());
        self.task(stream, |_| "copy", size, |stream, bytes| self.inner.copy(stream, task.up_to(bytes)))
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle> {
        let stream: &Arc<FaultStream> = stream.get()?;
        self.check_alive()?;
        let inner = self.inner.record(&stream.inner)?;
        let late = self.injector.happens(Fault::LateCompletion, &stream.dice);
        let late = if late { 1 + stream.dice.below(MAX_EXTRA_POLLS) } else { 0 };
        Ok(EventHandle::new(stream.event(inner, late)))
    }

    /// The inner driver executes the wait, but does not know of injected failures, so these are propagated
    /// here.
    fn wait(&self, stream: &StreamHandle, event: &EventHandle, after: WaitKind) -> Result<()> {
        let stream: &Arc<FaultStream> = stream.get()?;
        self.check_alive()?;
        let Ok(event) = event.get::<FaultEvent>() else {
            return self.inner.wait(&stream.inner, event, after);
        };
        let own = Arc::ptr_eq(stream, &event.stream);
        let failure = event.failure().filter(|_| after == WaitKind::Data && !own);
        let after = if stream.failure().is_some() { WaitKind::Order } else { after };
        self.inner.wait(&stream.inner, &event.inner, after)?;
        failure.into_iter().for_each(|failure| stream.fail(&*self.inner, failure));
        Ok(())
    }

    fn host_task(&self, stream: &StreamHandle, task: HostTask) -> Result<()> {
        let name = task.name.clone();
        self.task(stream, |_| &name, TaskSize::Launch(1), |stream, _| self.inner.host_task(stream, task))
    }

    fn host_access(&self, stream: &StreamHandle, task: HostAccessTask) -> Result<()> {
        let name = task.name().to_owned();
        self.task(stream, |_| &name, TaskSize::Launch(1), |stream, _| self.inner.host_access(stream, task))
    }

    fn device_access(&self, stream: &StreamHandle, task: DeviceAccessTask) -> Result<()> {
        let name = task.name().to_owned();
        self.task(stream, |_| &name, TaskSize::Launch(1), |stream, _| self.inner.device_access(stream, task))
    }

    fn mark(&self, stream: &StreamHandle, mark: Mark) -> Result<bool> {
        self.check_alive()?;
        self.inner.mark(&stream.get::<Arc<FaultStream>>()?.inner, mark)
    }

    fn is_done(&self, event: &EventHandle) -> Result<bool> {
        let event: &FaultEvent = event.get()?;
        let inner = match self.inner.is_done(&event.inner) {
            Ok(false) => return Ok(false),
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        if event.delays_completion() {
            return Ok(false);
        }
        event.outcome(inner).map(|()| true)
    }

    fn sync(&self, event: &EventHandle) -> Result<()> {
        let event: &FaultEvent = event.get()?;
        event.outcome(self.inner.sync(&event.inner))
    }
}
