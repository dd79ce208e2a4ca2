//! The functions of NCCL, which the same library has here: ranks are devices of this process.
//!
//! An exchange runs once the streams of all ranks have come to it. The setting `nccl=5` makes every exchange
//! fail with that code.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::{
    Answer, Handle, answer, current, put,
    world::{INVALID_HANDLE, INVALID_VALUE, Task, World, log, number, setting, world},
};

/// The identifier of a communicator; its first bytes are its number.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Id {
    bytes: [u8; 128],
}

/// A rank of a communicator.
#[derive(Clone, Copy)]
pub(crate) struct Rank {
    clique: u64,
    pub(crate) rank: u64,
    pub(crate) size: u64,
    pub(crate) device: u64,
    /// The number of exchanges so far.
    exchanges: u64,
}

/// An exchange of one rank.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    clique: u64,
    number: u64,
    rank: u64,
    size: u64,
    kind: Kind,
    from: u64,
    into: u64,
    count: usize,
    dtype: c_uint,
    by: c_uint,
    root: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AllReduce,
    Reduce,
    Broadcast,
    ReduceScatter,
    AllGather,
}

impl Exchange {
    /// Whether another exchange is the same one of another rank.
    pub(crate) fn is_with(&self, other: &Exchange) -> bool {
        (self.clique, self.number) == (other.clique, other.number)
    }

    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// The number of bytes of an element.
    fn element(&self) -> Result<usize, u32> {
        match self.dtype {
            0 | 1 => Ok(1),
            2 | 3 | 7 => Ok(4),
            4 | 5 | 8 => Ok(8),
            6 | 9 => Ok(2),
            _ => Err(INVALID_VALUE),
        }
    }
}

/// Runs an exchange of all ranks, each with its device.
pub(crate) fn run(world: &mut World, mut ranks: Vec<(u64, Exchange)>) -> Result<(), u32> {
    ranks.sort_by_key(|(_, exchange)| exchange.rank);
    let first = ranks[0].1;
    let is_alike = |exchange: &Exchange| {
        let described = |it: &Exchange| (it.kind, it.count, it.dtype, it.by, it.root);
        described(exchange) == described(&first)
    };
    assert!(ranks.iter().all(|(_, exchange)| is_alike(exchange)), "ranks with different exchanges");
    let bytes = first.count * first.element()?;
    let read = match first.kind {
        Kind::ReduceScatter => bytes * ranks.len(),
        _ => bytes,
    };
    let terms: Vec<Vec<u8>> = ranks
        .iter()
        .map(|(device, exchange)| Ok(world.bytes(*device, exchange.from, read)?.to_vec()))
        .collect::<Result<_, u32>>()?;
    for (device, exchange) in &ranks {
        let result = match exchange.kind {
            Kind::AllReduce => reduced(&terms, &first)?,
            Kind::Reduce if exchange.rank == exchange.root => reduced(&terms, &first)?,
            Kind::Reduce => continue,
            Kind::Broadcast => terms[exchange.root as usize].clone(),
            Kind::ReduceScatter => {
                reduced(&terms, &first)?[exchange.rank as usize * bytes..][..bytes].to_vec()
            }
            Kind::AllGather => terms.concat(),
        };
        world.bytes(*device, exchange.into, result.len())?.copy_from_slice(&result);
    }
    log(&format!("exchange {:?}", first.kind));
    Ok(())
}

/// The sums, or greatest or least values, of 32-bit integers and floats: the tests use no others.
fn reduced(terms: &[Vec<u8>], of: &Exchange) -> Result<Vec<u8>, u32> {
    let mut result = terms[0].clone();
    for term in &terms[1..] {
        for (to, from) in result.chunks_exact_mut(4).zip(term.chunks_exact(4)) {
            let (a, b) = ([to[0], to[1], to[2], to[3]], [from[0], from[1], from[2], from[3]]);
            let bytes = match of.dtype {
                2 => combined(i32::from_le_bytes(a), i32::from_le_bytes(b), of.by, i32::wrapping_add)?
                    .to_le_bytes(),
                7 => {
                    combined(f32::from_le_bytes(a), f32::from_le_bytes(b), of.by, |a, b| a + b)?.to_le_bytes()
                }
                _ => return Err(INVALID_VALUE),
            };
            to.copy_from_slice(&bytes);
        }
    }
    Ok(result)
}

fn combined<T: PartialOrd>(a: T, b: T, by: c_uint, sum: impl Fn(T, T) -> T) -> Result<T, u32> {
    match by {
        0 => Ok(sum(a, b)),
        2 => Ok(if a > b { a } else { b }),
        3 => Ok(if a < b { a } else { b }),
        _ => Err(INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetUniqueId(id: *mut Id) -> Answer {
    let mut bytes = [0; 128];
    bytes[..8].copy_from_slice(&world().handle().to_le_bytes());
    answer(put(id, Id { bytes }))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommInitRank(communicator: *mut Handle, size: c_int, id: Id, rank: c_int) -> Answer {
    answer((|| {
        let device = current()?;
        if rank < 0 || rank >= size {
            return Err(4);
        }
        let mut clique = [0; 8];
        clique.copy_from_slice(&id.bytes[..8]);
        let mut world = world();
        let handle = world.handle();
        let (clique, rank, size) = (u64::from_le_bytes(clique), rank as u64, size as u64);
        world.ranks.insert(handle, Rank { clique, rank, size, device, exchanges: 0 });
        log("connect");
        put(communicator, handle)
    })())
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommDestroy(communicator: Handle) -> Answer {
    log("disconnect");
    answer(world().ranks.remove(&communicator).map(drop).ok_or(INVALID_HANDLE))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> Answer {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupEnd() -> Answer {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(code: c_uint) -> *const c_char {
    let text: &CStr = if code == 5 { c"invalid usage" } else { c"another error" };
    text.as_ptr()
}

/// Adds an exchange to a stream.
fn push(
    kind: Kind,
    (from, into): (*const c_void, *mut c_void),
    (count, dtype, by): (usize, c_uint, c_uint),
    root: c_int,
    (communicator, stream): (Handle, Handle),
) -> Answer {
    if setting("nccl").is_some() {
        return number("nccl", 0) as Answer;
    }
    answer((|| {
        let mut world = world();
        let rank = world.ranks.get_mut(&communicator).ok_or(INVALID_HANDLE)?;
        let Rank { clique, rank: own, size, device, exchanges } = *rank;
        rank.exchanges += 1;
        if world.streams.get(&stream).is_none_or(|stream| stream.device != device) {
            return Err(INVALID_HANDLE);
        }
        let (from, into, root) = (from as u64, into as u64, root as u64);
        let (number, rank) = (exchanges, own);
        let exchange = Exchange { clique, number, rank, size, kind, from, into, count, dtype, by, root };
        world.push(stream, Task::Exchange(exchange))
    })())
}

#[unsafe(no_mangle)]
extern "C" fn ncclAllReduce(
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    dtype: c_uint,
    by: c_uint,
    communicator: Handle,
    stream: Handle,
) -> Answer {
    push(Kind::AllReduce, (from, into), (count, dtype, by), 0, (communicator, stream))
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the signature is the library's")]
extern "C" fn ncclReduce(
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    dtype: c_uint,
    by: c_uint,
    root: c_int,
    communicator: Handle,
    stream: Handle,
) -> Answer {
    push(Kind::Reduce, (from, into), (count, dtype, by), root, (communicator, stream))
}

#[unsafe(no_mangle)]
extern "C" fn ncclBroadcast(
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    dtype: c_uint,
    root: c_int,
    communicator: Handle,
    stream: Handle,
) -> Answer {
    push(Kind::Broadcast, (from, into), (count, dtype, 0), root, (communicator, stream))
}

#[unsafe(no_mangle)]
extern "C" fn ncclReduceScatter(
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    dtype: c_uint,
    by: c_uint,
    communicator: Handle,
    stream: Handle,
) -> Answer {
    push(Kind::ReduceScatter, (from, into), (count, dtype, by), 0, (communicator, stream))
}

#[unsafe(no_mangle)]
extern "C" fn ncclAllGather(
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    dtype: c_uint,
    communicator: Handle,
    stream: Handle,
) -> Answer {
    push(Kind::AllGather, (from, into), (count, dtype, 0), 0, (communicator, stream))
}
