//! A stream with everything that its tasks use, which it keeps until they are done.
//!
//! Tasks are *open* until [`Queue::close`] puts an event behind them; when that event is done so are they, and what they used is let
//! go. What they bring to the host lands in its arrays then.

use std::{
    any::Any,
    collections::VecDeque,
    fmt, ptr,
    sync::{Arc, PoisonError},
};

use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};
use device_runtime::HostLanding;
use smallvec::SmallVec;

use super::{CallError, Context, Graph, Grid, Launch, Piece, Region, code::listed};

/// Something that a task uses.
pub(crate) type Share = Arc<dyn Any + Send + Sync>;

/// Who wants to know when a mark is reached: one, unless events are recorded with nothing between them.
pub(crate) type Watchers<E> = SmallVec<[E; 1]>;

/// A point in a stream's work.
pub(crate) struct Mark {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: the driver takes calls from any thread, and the fields do not change.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    /// The context is current.
    fn new(context: &Arc<Context>) -> Result<Mark, CallError> {
        let found = context.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let raw = match found {
            Some(spare) => spare.0,
            None => {
                let mut raw = ptr::null_mut();
                let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
                // SAFETY: a place for the handle; the context is current.
                unsafe { context.api.cuEventCreate(&raw mut raw, flags)? };
                raw
            }
        };
        Ok(Mark { context: Arc::clone(context), raw })
    }

    /// Whether everything in front of it is done. The context is current.
    fn is_done(&self) -> Result<bool, CallError> {
        // SAFETY: the event lives as long as this value.
        match unsafe { self.context.api.cuEventQuery(self.raw) } {
            Err(error) if error.name == "CUDA_ERROR_NOT_READY" => Ok(false),
            answer => answer.map(|()| true),
        }
    }

    /// Waits until everything in front of it is done.
    pub(crate) fn sync(&self) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: the event lives as long as this value.
        unsafe { self.context.api.cuEventSynchronize(self.raw) }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // Waits that were made for it are for what it marked then, whatever it marks next.
        self.context.spare.lock().unwrap_or_else(PoisonError::into_inner).push(SpareEvent(self.raw));
    }
}

/// An event that may serve again: making one takes longer than all else that a task does.
#[derive(Debug)]
pub(super) struct SpareEvent(pub(super) CUevent);

// SAFETY: the driver takes calls from any thread.
unsafe impl Send for SpareEvent {}

/// Bytes on their way to a host array.
struct Landing {
    piece: Piece,
    array: HostLanding,
    /// Bytes from the array's beginning.
    offset: usize,
}

impl Landing {
    /// The task that wrote the piece is done.
    fn land(&self) {
        self.array.fill(self.offset, self.piece.bytes(), |bytes| self.piece.read(bytes));
    }
}

/// What tasks use.
#[derive(Default)]
struct Tasks {
    /// Whether there is any task, be it one that uses nothing.
    any: bool,
    /// One for a launch, two for a copy: no allocation where each task has an event.
    shares: SmallVec<[Share; 2]>,
    uploads: Vec<Piece>,
    landings: Vec<Landing>,
}

/// Tasks with the event behind them.
struct Closed<E> {
    mark: Arc<Mark>,
    tasks: Tasks,
    watchers: Watchers<E>,
}

/// A stream. `E` is what its user wants back when a mark is reached.
pub(crate) struct Queue<E> {
    context: Arc<Context>,
    raw: CUstream,
    open: Tasks,
    closed: VecDeque<Closed<E>>,
}

// SAFETY: the driver takes calls from any thread.
unsafe impl<E: Send> Send for Queue<E> {}

impl<E> Queue<E> {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Queue<E>, CallError> {
        context.enter()?;
        let raw = context.new_stream()?;
        Ok(Queue { context: Arc::clone(context), raw, open: Tasks::default(), closed: VecDeque::new() })
    }

    /// Runs a kernel; `share` owns it and the memory that its parameters point to.
    pub(crate) fn launch(&mut self, launch: Launch<'_>, share: Share) -> Result<(), CallError> {
        self.context.enter()?;
        let Launch { function, grid: Grid { blocks, threads, shared_bytes }, params } = launch;
        // SAFETY: the driver copies as many bytes of parameters as it is told, before it returns. The code stays within what they
        // point to, see the module; `share` keeps that, and the code, until the task is done.
        listed(params, |list| unsafe {
            self.context.api.cuLaunchKernel(
                function.raw(),
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared_bytes,
                self.raw,
                ptr::null_mut(),
                list,
            )
        })?;
        self.used([share]);
        Ok(())
    }

    /// Runs a graph; `share` owns it and what its kernels use.
    pub(crate) fn launch_graph(&mut self, graph: &Graph, share: Share) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: as for a kernel, of each of them; the graph is ready, and `share` keeps it until the task is done.
        unsafe { self.context.api.cuGraphLaunch(graph.exec(), self.raw)? };
        self.used([share]);
        Ok(())
    }

    /// Fills with zeros.
    pub(crate) fn zero(&mut self, dst: &Region) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: the region lies within its memory, which the queue keeps until the task is done.
        unsafe { self.context.api.cuMemsetD8Async(dst.address(), 0, dst.bytes(), self.raw)? };
        self.used([share(dst)]);
        Ok(())
    }

    /// Copies the beginning of a piece to a region, as much as fits.
    pub(crate) fn upload(&mut self, dst: &Region, piece: Piece) -> Result<(), CallError> {
        self.context.enter()?;
        let bytes = dst.bytes().min(piece.bytes());
        let src = piece.address().cast_const().cast();
        // SAFETY: so many bytes are in both, and the queue keeps both until the task is done.
        unsafe { self.context.api.cuMemcpyHtoDAsync_v2(dst.address(), src, bytes, self.raw)? };
        self.open.uploads.push(piece);
        self.used([share(dst)]);
        Ok(())
    }

    /// Copies a region to a piece, and to an array from `offset` on when it is done.
    pub(crate) fn download(
        &mut self,
        src: &Region,
        piece: Piece,
        array: &HostLanding,
        offset: usize,
    ) -> Result<(), CallError> {
        self.context.enter()?;
        let bytes = src.bytes().min(piece.bytes());
        let dst = piece.address().cast();
        // SAFETY: so many bytes are in both, and the queue keeps both until the task is done.
        unsafe { self.context.api.cuMemcpyDtoHAsync_v2(dst, src.address(), bytes, self.raw)? };
        self.open.landings.push(Landing { piece, array: array.clone(), offset });
        self.used([share(src)]);
        Ok(())
    }

    /// Copies a region to another, as much as fits; either may be another device's that this one reaches.
    pub(crate) fn copy(&mut self, dst: &Region, src: &Region) -> Result<(), CallError> {
        self.context.enter()?;
        let bytes = dst.bytes().min(src.bytes());
        let (to, from) = (&dst.memory().context, &src.memory().context);
        let (dst_address, src_address) = (dst.address(), src.address());
        let api = self.context.api;
        // SAFETY: so many bytes are in both, and the queue keeps both until the task is done; their contexts live as long as they.
        unsafe {
            if to.raw == from.raw {
                api.cuMemcpyDtoDAsync_v2(dst_address, src_address, bytes, self.raw)?;
            } else {
                api.cuMemcpyPeerAsync(dst_address, to.raw, src_address, from.raw, bytes, self.raw)?;
            }
        }
        self.used([share(dst), share(src)]);
        Ok(())
    }

    /// Makes later tasks wait for a point in another stream's work.
    pub(crate) fn wait(&mut self, mark: &Mark) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: both live; what is waited for is settled now, so the event may serve again.
        unsafe { self.context.api.cuStreamWaitEvent(self.raw, mark.raw, 0)? };
        self.used([]);
        Ok(())
    }

    /// Puts a mark behind the open tasks.
    pub(crate) fn close(&mut self) -> Result<(), CallError> {
        self.context.enter()?;
        let mark = Arc::new(Mark::new(&self.context)?);
        // SAFETY: both live, and are of one context.
        unsafe { self.context.api.cuEventRecord(mark.raw, self.raw)? };
        let tasks = std::mem::take(&mut self.open);
        self.closed.push_back(Closed { mark, tasks, watchers: Watchers::new() });
        Ok(())
    }

    /// The last mark, with a place for who wants to know when it is reached; none if everything that is closed is done.
    pub(crate) fn last(&mut self) -> Option<(&Arc<Mark>, &mut Watchers<E>)> {
        self.closed.back_mut().map(|closed| (&closed.mark, &mut closed.watchers))
    }

    /// The first mark that is not known to be reached.
    pub(crate) fn first(&self) -> Option<&Arc<Mark>> {
        self.closed.front().map(|closed| &closed.mark)
    }

    /// Whether tasks were handed over since the last mark.
    pub(crate) fn is_open(&self) -> bool {
        self.open.any
    }

    /// Marks that are not known to be reached.
    pub(crate) fn len(&self) -> usize {
        self.closed.len()
    }

    /// What the tasks use that are not known to be done, as far as [`Queue::launch`] was told.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Share> {
        self.closed.iter().map(|closed| &closed.tasks).chain([&self.open]).flat_map(|tasks| &tasks.shares)
    }

    /// Takes the first mark off if it is reached: fills host arrays, lets go of what the tasks used, and gives back the watchers.
    pub(crate) fn retire(&mut self) -> Result<Option<Watchers<E>>, CallError> {
        self.context.enter()?;
        let Some(first) = self.closed.front() else { return Ok(None) };
        if !first.mark.is_done()? {
            return Ok(None);
        }
        let Some(Closed { tasks, watchers, .. }) = self.closed.pop_front() else { return Ok(None) };
        tasks.landings.iter().for_each(Landing::land);
        Ok(Some(watchers))
    }

    /// Takes everything off, since the context is lost: nothing runs on it any more. Gives back the watchers.
    pub(crate) fn abandon(&mut self) -> Vec<E> {
        self.open = Tasks::default();
        self.closed.drain(..).flat_map(|closed| closed.watchers).collect()
    }

    fn used<const N: usize>(&mut self, shares: [Share; N]) {
        self.open.any = true;
        self.open.shares.extend(shares);
    }
}

fn share(region: &Region) -> Share {
    Arc::clone(region.memory()) as Share
}

impl<E> Drop for Queue<E> {
    fn drop(&mut self) {
        // A stream that cannot be waited for is one of a lost context, on which nothing runs.
        let _ = self.context.enter();
        // SAFETY: made by `new`, and no other value has it; its tasks are done before what they use is dropped.
        unsafe {
            let _ = self.context.api.cuStreamSynchronize(self.raw);
            let _ = self.context.api.cuStreamDestroy_v2(self.raw);
        }
    }
}

impl<E> fmt::Debug for Queue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stream with {} marks", self.len())
    }
}
