//! Transfers between host arrays and nodes.
//!
//! All of them are tasks of the context's stream, ordered like any other. A source array is owned by its task, so the host
//! may do what it likes with its own; a result is handed out when it has arrived.

use std::sync::{Arc, Mutex};

use codegen_core::Access;
use tnode::{HostArray, TensorNode};

use crate::{
    context::{Context, without_memory},
    error::Error,
    event::Event,
    pool::{Buffer, allocate, lock},
    submit::{Task, submit},
};

/// What became of a requested transfer.
#[derive(Clone, Debug)]
#[must_use]
pub enum Transfer {
    /// It is a task of the stream; the event is done when the values have arrived.
    Scheduled(Event),
    /// There was nothing to transfer; the text says why.
    NothingToDo(&'static str),
}

impl Transfer {
    /// Waits until the values have arrived.
    ///
    /// # Errors
    ///
    /// The first failure on the way.
    pub fn sync(&self) -> Result<(), Error> {
        match self {
            Transfer::Scheduled(event) => event.sync(),
            Transfer::NothingToDo(_) => Ok(()),
        }
    }
}

impl Context {
    /// Schedules copying a host array into a node. The array's values are taken at once.
    ///
    /// # Errors
    ///
    /// A node that is not in the context, an array of other sizes (margins included) or another element type, and the
    /// device's refusal.
    pub fn from_host(&self, node: &TensorNode, array: &HostArray) -> Result<Transfer, Error> {
        check(node, array)?;
        self.from_host_shared(node, &Arc::new(array.clone()))
    }

    /// As [`Context::from_host`], without copying the array on the host.
    ///
    /// # Errors
    ///
    /// As [`Context::from_host`].
    pub fn from_host_shared(&self, node: &TensorNode, array: &Arc<HostArray>) -> Result<Transfer, Error> {
        let buffer = self.buffer(node, "write")?;
        check(node, array)?;
        if buffer.bytes == 0 {
            return Ok(Transfer::NothingToDo("the node has no elements"));
        }
        self.copy_in(buffer, array).map(Transfer::Scheduled)
    }

    /// Gives a node memory and schedules copying a host array into it; the child context sees the node.
    ///
    /// # Errors
    ///
    /// A node that is in the context already or is virtual, an array of other sizes (margins included) or another element
    /// type, and the device's refusal, after which nothing stays allocated.
    pub fn init_from_host(&self, node: &TensorNode, array: &HostArray) -> Result<Context, Error> {
        check(node, array)?;
        self.init_from_host_shared(node, &Arc::new(array.clone()))
    }

    /// As [`Context::init_from_host`], without copying the array on the host.
    ///
    /// # Errors
    ///
    /// As [`Context::init_from_host`].
    pub fn init_from_host_shared(&self, node: &TensorNode, array: &Arc<HostArray>) -> Result<Context, Error> {
        if self.contains(node) {
            return Err(Error::AlreadyInContext { node: node.name(), stream: self.stream().name() });
        }
        if node.mode().known_virtual() {
            return Err(without_memory(node, "initialise"));
        }
        check(node, array)?;
        let fresh = allocate(self.stream().device(), &[node])?;
        for buffer in fresh.iter().filter(|buffer| buffer.bytes > 0) {
            self.copy_in(buffer, array)?;
        }
        Ok(self.with(fresh))
    }

    /// A node's values, once everything scheduled before has written them.
    ///
    /// # Errors
    ///
    /// A virtual node, a node that is not in the context, and [`Error::failure`] if a task behind the values failed.
    pub fn to_host(&self, node: &TensorNode) -> Result<HostArray, Error> {
        let buffer = self.buffer(node, "read")?;
        let array = HostArray::zeros(node.dtype(), node.dims()?)?;
        let array = if buffer.bytes == 0 { array } else { self.copy_out(buffer, array)? };
        Ok(match node.padding() {
            Some(padding) => HostArray::from_padded(array, padding.clone())?,
            None => array,
        })
    }

    fn copy_in(&self, buffer: &Arc<Buffer>, array: &Arc<HostArray>) -> Result<Event, Error> {
        let name = || format!("copying to node `{}`", buffer.node.name());
        let uses = [(Arc::clone(buffer), Access::Write)];
        submit(self.stream(), &uses, name, &Task::CopyIn(buffer, array))
    }

    /// Waits for the copy, then takes what has landed.
    fn copy_out(&self, buffer: &Arc<Buffer>, array: HostArray) -> Result<HostArray, Error> {
        let name = || format!("copying from node `{}`", buffer.node.name());
        let uses = [(Arc::clone(buffer), Access::Read)];
        let landing = Arc::new(Mutex::new(array));
        submit(self.stream(), &uses, name, &Task::CopyOut(buffer, &landing))?
            .sync()
            .map_err(|error| self.cause(buffer, error))?;
        let empty = HostArray::zeros(buffer.node.dtype(), [0])?;
        let landed = std::mem::replace(&mut *lock(&landing), empty);
        Ok(landed)
    }

    /// Why a copy from a node failed: because the node has no value, or because the stream stopped for another reason.
    fn cause(&self, buffer: &Buffer, error: Error) -> Error {
        let driver = self.stream().device().driver();
        match lock(&buffer.hazards).failure(&|event| driver.is_done(event)) {
            Some(failure) => Error::Poisoned { node: buffer.node.name(), failure },
            None => error,
        }
    }
}

/// Whether an array can hold a node's values, margins included.
fn check(node: &TensorNode, array: &HostArray) -> Result<(), Error> {
    let (expected, found) = (node.dims()?, array.dims());
    if expected != *found {
        let (expected, found) = (expected.to_vec(), found.to_vec());
        return Err(Error::Shape { node: node.name(), what: "the host array".to_owned(), expected, found });
    }
    if node.dtype() != array.dtype() {
        let (expected, found) = (node.dtype(), array.dtype());
        let what = "the host array".to_owned();
        return Err(Error::ElementType { node: node.name(), what, expected, found });
    }
    Ok(())
}
