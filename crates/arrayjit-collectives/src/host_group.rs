//! Groups of ranks whose values are on the host, over a transport of bytes.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arrayjit::{Context, Event, Stream, TensorNode};
use xxhash_rust::xxh3::Xxh3;

use crate::{
    announcement::Announcement,
    checks::{
        DIGEST_BYTES, check_digests, check_part_count, check_parts, check_root, common_type, names,
        short_names,
    },
    error::{CollectiveError, Result},
    group::{Group, Reduction},
    reduce,
    transport::Transport,
};

/// The most bytes for one rank in one exchange, unless the user chooses.
const BLOCK_BYTES: usize = 512 << 10;

/// Blocks of an exchange are aligned to this many bytes.
const ALIGNMENT: usize = 64;

/// A group over a transport. Its operations run on a stream of the group, one after the other.
pub struct HostGroup {
    shared: Arc<Shared>,
    stream: Stream,
    timeout: Duration,
    block_bytes: usize,
}

/// The parts of a group that its tasks use.
struct Shared {
    transport: Box<dyn Transport>,
    /// The number of operations so far.
    operations: AtomicU64,
    failure: Mutex<Option<CollectiveError>>,
    staging: Mutex<Staging>,
    statistics: Mutex<GroupStatistics>,
}

/// The operations of a group on one rank.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct GroupStatistics {
    /// The number of operations.
    pub operations: u64,
    /// The bytes of their nodes on this rank.
    pub bytes: u64,
    /// The time until all ranks had come to the operations.
    pub waiting: Duration,
    /// The time for the exchanges of bytes and for the reductions.
    pub exchanging: Duration,
}

/// Memory for the blocks that a rank sends and receives, kept for the next operation.
#[derive(Default)]
struct Staging {
    own: Vec<u64>,
    received: Vec<u64>,
}

/// The memory of nodes, as one sequence of bytes.
struct Bytes<'a, 'm>(&'a mut [&'m mut [u8]]);

impl HostGroup {
    /// A group whose operations run on a stream, which nothing else should use, of the device whose nodes
    /// they are given. A rank waits 5 minutes for the others.
    pub fn new(transport: impl Transport, stream: Stream) -> HostGroup {
        let (operations, failure) = (AtomicU64::new(0), Mutex::new(None));
        let (transport, staging, statistics) = (Box::new(transport), Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { transport, operations, failure, staging, statistics });
        HostGroup { shared, stream, timeout: Duration::from_secs(300), block_bytes: BLOCK_BYTES }
    }

    /// The most bytes for one rank in one exchange, 512 KiB by default and a multiple of 64. Longer arrays
    /// take several exchanges, which bounds the memory beside the arrays to two blocks for each rank. It must
    /// be the same on all ranks; results do not depend on it.
    #[must_use]
    pub fn with_block_bytes(self, bytes: usize) -> HostGroup {
        HostGroup { block_bytes: bytes.clamp(ALIGNMENT, 1 << 30).next_multiple_of(ALIGNMENT), ..self }
    }

    /// How long an operation waits for other ranks.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> HostGroup {
        HostGroup { timeout, ..self }
    }

    /// The stream on which operations run.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The operations so far, with the time that they took.
    pub fn statistics(&self) -> GroupStatistics {
        *self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Schedules an operation on the memory of nodes.
    fn schedule(
        &self,
        context: &Context,
        nodes: &[TensorNode],
        operation: &str,
        body: impl FnOnce(&Shared, &mut [&mut [u8]]) -> Result<()> + Send + 'static,
    ) -> Result<Event> {
        self.check_alive()?;
        let name = match nodes {
            [] => operation.to_owned(),
            _ => format!("{operation} of {}", short_names(nodes)),
        };
        let details = names(nodes);
        let (shared, timeout, operation) = (self.shared.clone(), self.timeout, name.clone());
        let run = move |memory: &mut [&mut [u8]]| {
            let bytes: usize = memory.iter().map(|bytes| bytes.len()).sum();
            let text = format!("{operation} ({bytes} bytes)");
            shared
                .run(&text, &details, bytes, timeout, || body(&shared, memory))
                .map_err(|error| error.to_string())
        };
        Ok(context.access_on_host(&self.stream, nodes, &name, run)?)
    }

    fn check_alive(&self) -> Result<()> {
        match self.failure() {
            Some(failure) => Err(CollectiveError::Failed(failure.to_string())),
            None => Ok(()),
        }
    }

    /// The outcome of a wait, where the group's own failure says more than the stream's.
    fn waited(&self, outcome: Result<(), arrayjit::RunError>) -> Result<()> {
        outcome.map_err(|error| self.failure().unwrap_or_else(|| error.into()))
    }
}

impl Group for HostGroup {
    fn rank(&self) -> usize {
        self.shared.transport.rank()
    }

    fn size(&self) -> usize {
        self.shared.transport.size()
    }

    fn all_reduce(&self, context: &Context, nodes: &[TensorNode], by: Reduction) -> Result<Event> {
        let (dtype, size) = (common_type(nodes)?, self.size());
        let most = self.block_bytes;
        let operation = format!("all_reduce by {by} as {dtype}");
        self.schedule(context, nodes, &operation, move |shared, memory| {
            all_reduce(&*shared.transport, &mut shared.staging(), &mut Bytes(memory), most, |blocks| {
                reduce::reduce(dtype, by, blocks, size);
            })
        })
    }

    fn reduce_scatter(
        &self,
        context: &Context,
        from: &TensorNode,
        into: &TensorNode,
        by: Reduction,
    ) -> Result<Event> {
        let nodes = [from.clone(), into.clone()];
        let dtype = common_type(&nodes)?;
        check_parts(from, into, self.size())?;
        let operation = format!("reduce_scatter by {by} as {dtype}");
        let most = self.block_bytes;
        self.schedule(context, &nodes, &operation, move |shared, memory| match memory {
            [from, into] => {
                let (transport, size) = (&*shared.transport, shared.transport.size());
                reduce_scatter(transport, &mut shared.staging(), from, into, most, |blocks| {
                    reduce::reduce(dtype, by, blocks, size);
                })
            }
            _ => Ok(()),
        })
    }

    fn all_gather(&self, context: &Context, from: &TensorNode, into: &TensorNode) -> Result<Event> {
        check_parts(into, from, self.size())?;
        let (nodes, most) = ([from.clone(), into.clone()], self.block_bytes);
        self.schedule(context, &nodes, "all_gather", move |shared, memory| match memory {
            [from, into] => all_gather(&*shared.transport, from, into, most),
            _ => Ok(()),
        })
    }

    fn reduce_scatter_nodes(
        &self,
        context: &Context,
        parts: &[Vec<TensorNode>],
        by: Reduction,
    ) -> Result<Event> {
        let (nodes, size) = (parts.concat(), self.size());
        check_part_count(parts.len(), size)?;
        let (dtype, most) = (common_type(&nodes)?, self.block_bytes);
        let counts: Vec<usize> = parts.iter().map(Vec::len).collect();
        let operation = format!("reduce_scatter by {by} as {dtype}");
        self.schedule(context, &nodes, &operation, move |shared, memory| {
            let parts = &mut part_bytes(memory, &counts, size);
            reduce_scatter_parts(&*shared.transport, &mut shared.staging(), parts, most, |blocks| {
                reduce::reduce(dtype, by, blocks, size);
            })
        })
    }

    fn all_gather_nodes(&self, context: &Context, parts: &[Vec<TensorNode>]) -> Result<Event> {
        let (nodes, size, most) = (parts.concat(), self.size(), self.block_bytes);
        check_part_count(parts.len(), size)?;
        let counts: Vec<usize> = parts.iter().map(Vec::len).collect();
        self.schedule(context, &nodes, "all_gather", move |shared, memory| {
            let parts = &mut part_bytes(memory, &counts, size);
            all_gather_parts(&*shared.transport, &mut shared.staging(), parts, most)
        })
    }

    fn broadcast(&self, context: &Context, nodes: &[TensorNode], root: usize) -> Result<Event> {
        check_root(root, self.size())?;
        let most = self.block_bytes;
        self.schedule(context, nodes, &format!("broadcast from rank {root}"), move |shared, memory| {
            let mut chunks = memory.iter_mut().flat_map(|bytes| bytes.chunks_mut(most));
            chunks.try_for_each(|chunk| shared.transport.broadcast(chunk, root))
        })
    }

    fn barrier(&self) -> Result<()> {
        self.check_alive()?;
        self.waited(self.stream.sync())?;
        self.shared.run("barrier", "", 0, self.timeout, || Ok(()))
    }

    fn check_equal(&self, context: &Context, nodes: &[TensorNode]) -> Result<()> {
        let names = names(nodes);
        let event = self.schedule(context, nodes, "check_equal", move |shared, memory| {
            let transport = &*shared.transport;
            let mut digest = Xxh3::new();
            memory.iter().for_each(|bytes| digest.update(bytes));
            let mut all = vec![0; DIGEST_BYTES * transport.size()];
            transport.all_gather(&digest.digest().to_le_bytes(), &mut all)?;
            check_digests(&all, &names)
        })?;
        self.waited(event.sync())
    }

    fn failure(&self) -> Option<CollectiveError> {
        self.shared.failure().clone()
    }
}

impl Shared {
    /// Meets the other ranks, and runs an operation if they came for the same one.
    fn run(
        &self,
        operation: &str,
        details: &str,
        bytes: usize,
        timeout: Duration,
        body: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let transport = &*self.transport;
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        let own = Announcement::with_details(&format!("{operation} #{number}"), details);
        let start = Instant::now();
        let mut waiting = Duration::ZERO;
        let outcome = transport.meet(&own, timeout).and_then(|all| {
            waiting = start.elapsed();
            let outcome = match all.iter().position(|other| *other != own) {
                Some(other) => Err(CollectiveError::Mismatch {
                    rank: transport.rank(),
                    operation: own.text(),
                    other,
                    found: all[other].text(),
                }),
                None => body(),
            };
            transport.done();
            outcome
        });
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.operations += 1;
        statistics.bytes += bytes as u64;
        statistics.waiting += waiting;
        statistics.exchanging += start.elapsed().saturating_sub(waiting);
        drop(statistics);
        if let Err(error) = &outcome {
            self.failure().get_or_insert_with(|| error.clone());
        }
        outcome
    }

    fn staging(&self) -> MutexGuard<'_, Staging> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<CollectiveError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bytes<'_, '_> {
    fn len(&self) -> usize {
        self.0.iter().map(|bytes| bytes.len()).sum()
    }

    /// Calls a function for each part of the memory in `start..start + len`, with its position in that range.
    fn each(&mut self, start: usize, len: usize, mut call: impl FnMut(usize, &mut [u8])) {
        let mut at = 0;
        for bytes in self.0.iter_mut() {
            let (from, to) = (start.max(at), (start + len).min(at + bytes.len()));
            if from < to {
                call(from - start, &mut bytes[from - at..to - at]);
            }
            at += bytes.len();
        }
    }

    fn read(&mut self, start: usize, to: &mut [u8]) {
        self.each(start, to.len(), |at, bytes| to[at..at + bytes.len()].copy_from_slice(bytes));
    }

    fn write(&mut self, start: usize, from: &[u8]) {
        self.each(start, from.len(), |at, bytes| bytes.copy_from_slice(&from[at..at + bytes.len()]));
    }
}

impl Staging {
    /// Memory of that many bytes for both, aligned for elements of all types.
    fn blocks(&mut self, bytes: usize) -> [&mut [u8]; 2] {
        let words = bytes.div_ceil(size_of::<u64>());
        [&mut self.own, &mut self.received].map(|words_of| {
            words_of.resize(words.max(words_of.len()), 0);
            &mut bytemuck::cast_slice_mut(words_of)[..bytes]
        })
    }
}

/// Each rank reduces one block of each exchange and sends the result to all.
fn all_reduce(
    transport: &dyn Transport,
    staging: &mut Staging,
    memory: &mut Bytes<'_, '_>,
    most: usize,
    reduce: impl Fn(&mut [u8]),
) -> Result<()> {
    let (size, total) = (transport.size(), memory.len());
    if size == 1 {
        return Ok(());
    }
    let block = total.div_ceil(size).clamp(1, most).next_multiple_of(ALIGNMENT);
    let [own, received] = staging.blocks(size * block);
    for start in (0..total).step_by(size * block) {
        let len = (size * block).min(total - start);
        memory.read(start, &mut own[..len]);
        transport.all_to_all(own, received)?;
        reduce(received);
        transport.all_gather(&received[..block], own)?;
        memory.write(start, &own[..len]);
    }
    Ok(())
}

fn reduce_scatter(
    transport: &dyn Transport,
    staging: &mut Staging,
    from: &[u8],
    into: &mut [u8],
    most: usize,
    reduce: impl Fn(&mut [u8]),
) -> Result<()> {
    let (size, part) = (transport.size(), into.len());
    let block = part.clamp(1, most).next_multiple_of(ALIGNMENT);
    let [own, received] = staging.blocks(size * block);
    for (start, into) in (0..part).step_by(block).zip(into.chunks_mut(block)) {
        for (rank, own) in own.chunks_mut(block).enumerate() {
            own[..into.len()].copy_from_slice(&from[rank * part + start..][..into.len()]);
        }
        transport.all_to_all(own, received)?;
        reduce(received);
        into.copy_from_slice(&received[..into.len()]);
    }
    Ok(())
}

fn all_gather(transport: &dyn Transport, from: &[u8], into: &mut [u8], most: usize) -> Result<()> {
    let (mut received, part) = (Vec::new(), from.len());
    for (start, from) in (0..from.len()).step_by(most).zip(from.chunks(most)) {
        received.resize(transport.size() * from.len(), 0);
        transport.all_gather(from, &mut received)?;
        for (into, received) in into.chunks_mut(part).zip(received.chunks(from.len())) {
            into[start..start + received.len()].copy_from_slice(received);
        }
    }
    Ok(())
}

/// The memory of each part; a part for each rank, of which the last ones may be empty. `counts` has the
/// number of nodes of each part.
fn part_bytes<'a, 'm>(memory: &'a mut [&'m mut [u8]], counts: &[usize], size: usize) -> Vec<Bytes<'a, 'm>> {
    let mut rest = memory;
    let counts = counts.iter().copied().chain(std::iter::repeat(0)).take(size);
    counts
        .map(|count| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(count);
            rest = others;
            Bytes(part)
        })
        .collect()
}

/// The positions at which blocks of parts begin, and the size of a block in bytes.
fn blocks_of(parts: &[Bytes<'_, '_>], most: usize) -> (impl Iterator<Item = usize> + use<>, usize) {
    let longest = parts.iter().map(Bytes::len).max().unwrap_or_default();
    let block = longest.clamp(1, most).next_multiple_of(ALIGNMENT);
    ((0..longest).step_by(block), block)
}

/// The number of bytes of a part in the block that begins at `start`.
fn bytes_in_block(part: &Bytes<'_, '_>, start: usize, block: usize) -> usize {
    part.len().saturating_sub(start).min(block)
}

/// Each rank gets one block of all ranks in each exchange, and reduces it into its own part.
fn reduce_scatter_parts(
    transport: &dyn Transport,
    staging: &mut Staging,
    parts: &mut [Bytes<'_, '_>],
    most: usize,
    reduce: impl Fn(&mut [u8]),
) -> Result<()> {
    let (starts, block) = blocks_of(parts, most);
    let [own, received] = staging.blocks(transport.size() * block);
    for start in starts {
        for (part, own) in parts.iter_mut().zip(own.chunks_mut(block)) {
            let len = bytes_in_block(part, start, block);
            part.read(start, &mut own[..len]);
        }
        transport.all_to_all(own, received)?;
        reduce(received);
        let part = &mut parts[transport.rank()];
        part.write(start, &received[..bytes_in_block(part, start, block)]);
    }
    Ok(())
}

fn all_gather_parts(
    transport: &dyn Transport,
    staging: &mut Staging,
    parts: &mut [Bytes<'_, '_>],
    most: usize,
) -> Result<()> {
    let (starts, block) = blocks_of(parts, most);
    let [own, received] = staging.blocks(transport.size() * block);
    for start in starts {
        let part = &mut parts[transport.rank()];
        let len = bytes_in_block(part, start, block);
        part.read(start, &mut own[..len]);
        transport.all_gather(&own[..block], received)?;
        for (part, received) in parts.iter_mut().zip(received.chunks(block)) {
            let len = bytes_in_block(part, start, block);
            part.write(start, &received[..len]);
        }
    }
    Ok(())
}
