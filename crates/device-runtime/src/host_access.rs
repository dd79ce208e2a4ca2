//! Functions of the user, and operations of a driver's own, on the values of nodes, as tasks of a stream.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use codegen_core::{Access, panic_message};
use tnode::{HostArray, TensorNode};

use crate::{
    checked::{DeviceOperation, HostFunction, MemoryRange},
    context::Context,
    error::{DriverError, RunError},
    event::Event,
    pool::Buffer,
    stream::Stream,
    submit::{MemoryTask, Use, in_order, submit},
};

/// Nodes that a task reads and writes.
struct NodeAccess {
    buffers: Vec<Arc<Buffer>>,
    memory: Vec<MemoryRange>,
    uses: Vec<Use>,
}

impl Context {
    /// Schedules a function that reads and changes the values of nodes on the host: communication with other
    /// processes, or a computation that no routine says. `name` is for messages. The function gets the
    /// elements of each node as bytes, margins included, in the order of `nodes`.
    ///
    /// The function is a task like a run of a routine: it starts after all earlier writes of the nodes, and
    /// all later uses of them wait for it. On a CPU it gets the memory of the nodes itself, and runs on the
    /// worker of `stream`, so on a stream of its own it may take long or wait for other processes. On a
    /// device whose memory the host cannot access, the caller waits for the values, calls the function, and
    /// schedules a copy back.
    ///
    /// If the function returns an error or panics on the stream, the stream fails and the nodes have no
    /// values. If it does so on the caller's thread, the nodes keep theirs.
    ///
    /// # Errors
    ///
    /// [`RunError::OtherDevice`] for a stream of another device than the context's,
    /// [`RunError::NotInContext`], [`RunError::Poisoned`] for a node without values,
    /// [`DriverError::AccessOverlap`] for nodes that share memory, and errors of the device. If the caller
    /// runs the function, its failure is [`RunError::HostFunction`].
    ///
    /// [`DriverError::AccessOverlap`]: crate::DriverError::AccessOverlap
    pub fn access_on_host(
        &self,
        stream: &Stream,
        nodes: &[TensorNode],
        name: &str,
        run: impl FnOnce(&mut [&mut [u8]]) -> Result<(), String> + Send + 'static,
    ) -> Result<Event, RunError> {
        let _span = tracing::debug_span!("host function", name, stream = %stream.name()).entered();
        let access = self.access(stream, nodes)?;
        let function = HostFunction::new(run);
        let task = MemoryTask::HostAccess(name, &access.memory, &function);
        match submit(stream, &access.uses, || format!("`{name}` on the host"), &task) {
            Ok(event) => {
                self.wrote(nodes, &event);
                Ok(event)
            }
            Err(RunError::Driver { source: DriverError::NoHostTasks { .. }, .. }) => {
                self.access_copies(nodes, &access.buffers, name, &function)
            }
            Err(error) => Err(error),
        }
    }

    /// Schedules an operation on the values of nodes that only the driver of the device knows, such as a sum
    /// over devices by a library of the platform. `name` is for messages. It is a task like a run of a
    /// routine: it starts after all earlier writes of the nodes, and all later uses of them wait for it.
    ///
    /// # Errors
    ///
    /// [`RunError::OtherDevice`] for a stream of another device than the context's,
    /// [`RunError::NotInContext`], [`RunError::Poisoned`] for a node without values,
    /// [`DriverError::AccessOverlap`] for nodes that share memory, [`DriverError::NoDeviceTasks`] and
    /// [`DriverError::ForeignHandle`] for an operation that the driver does not know, and errors of the
    /// device.
    pub fn access_on_device(
        &self,
        stream: &Stream,
        nodes: &[TensorNode],
        name: &str,
        operation: DeviceOperation,
    ) -> Result<Event, RunError> {
        let _span = tracing::debug_span!("device operation", name, stream = %stream.name()).entered();
        let access = self.access(stream, nodes)?;
        let task = MemoryTask::DeviceAccess(name, &access.memory, &operation);
        let event = submit(stream, &access.uses, || format!("`{name}`"), &task)?;
        self.wrote(nodes, &event);
        Ok(event)
    }

    /// The memory of nodes that a task on a stream reads and writes.
    fn access(&self, stream: &Stream, nodes: &[TensorNode]) -> Result<NodeAccess, RunError> {
        if stream.device() != self.stream().device() {
            let (expected, found) = (self.stream().name(), stream.name());
            return Err(RunError::OtherDevice { expected, found });
        }
        let buffers: Vec<Arc<Buffer>> =
            nodes.iter().map(|node| self.writable(node)).collect::<Result<_, _>>()?;
        let memory = buffers.iter().map(|buffer| buffer.range.clone()).collect();
        let mut uses: Vec<Use> =
            in_order(buffers.iter().map(|buffer| Use::new(buffer, Access::ReadWrite)).collect());
        // A table is locked once. That a node was given twice is found when the task is made.
        uses.dedup_by(|a, b| Arc::ptr_eq(&a.buffer, &b.buffer));
        Ok(NodeAccess { buffers, memory, uses })
    }

    /// Calls the function with copies of the values on the caller's thread.
    fn access_copies(
        &self,
        nodes: &[TensorNode],
        buffers: &[Arc<Buffer>],
        name: &str,
        function: &HostFunction,
    ) -> Result<Event, RunError> {
        let read = |(node, buffer): (&TensorNode, &Arc<Buffer>)| self.read_back(node, buffer);
        let mut arrays: Vec<HostArray> = nodes.iter().zip(buffers).map(read).collect::<Result<_, _>>()?;
        let mut bytes: Vec<&mut [u8]> = arrays.iter_mut().map(HostArray::bytes_mut).collect();
        // AssertUnwindSafe: the copies are dropped if the function panics.
        let called = catch_unwind(AssertUnwindSafe(|| function.run(&mut bytes)));
        let result = called.unwrap_or_else(|panic| Err(panic_message(panic)));
        result.map_err(|message| RunError::HostFunction { name: name.to_owned(), message })?;
        for (node, array) in nodes.iter().zip(arrays) {
            let _ = self.from_host(node, array)?;
        }
        self.stream().all_work()
    }
}
