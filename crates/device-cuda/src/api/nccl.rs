//! NCCL as a safe interface: NVIDIA's library of collective operations, which is loaded when a
//! communicator is made or connected, as the driver is when a device is opened.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use cudarc::{
    driver::sys::CUstream,
    nccl::sys::{self, ncclComm_t, ncclUniqueId},
};

use super::{CallError, Context, LoadError, MemoryRegion, functions};

functions! {
    /// The functions of NCCL. Data types and reductions are the numbers of the library's enumerations.
    NcclApi from sys::culib;
    ncclGetUniqueId(id: *mut ncclUniqueId);
    ncclCommInitRank(comm: *mut ncclComm_t, size: c_int, id: ncclUniqueId, rank: c_int);
    ncclCommDestroy(comm: ncclComm_t);
    ncclGroupStart();
    ncclGroupEnd();
    ncclAllReduce(
        from: *const c_void, into: *mut c_void, count: usize, dtype: c_uint, by: c_uint, comm: ncclComm_t,
        stream: CUstream,
    );
    ncclReduce(
        from: *const c_void, into: *mut c_void, count: usize, dtype: c_uint, by: c_uint, root: c_int,
        comm: ncclComm_t, stream: CUstream,
    );
    ncclBroadcast(
        from: *const c_void, into: *mut c_void, count: usize, dtype: c_uint, root: c_int, comm: ncclComm_t,
        stream: CUstream,
    );
    ncclReduceScatter(
        from: *const c_void, into: *mut c_void, count: usize, dtype: c_uint, by: c_uint, comm: ncclComm_t,
        stream: CUstream,
    );
    ncclAllGather(
        from: *const c_void, into: *mut c_void, count: usize, dtype: c_uint, comm: ncclComm_t, stream: CUstream,
    );
}

impl NcclApi {
    /// # Errors
    ///
    /// There is no library, or it lacks a function. The error stays the same for the life of the process.
    fn get() -> Result<&'static NcclApi, LoadError> {
        static API: OnceLock<Result<NcclApi, LoadError>> = OnceLock::new();
        API.get_or_init(NcclApi::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<NcclApi, LoadError> {
        // SAFETY: opens libraries with NCCL's names, which execute no relevant code when they are opened.
        if !unsafe { sys::is_culib_present() } {
            return Err(LoadError::NoLibrary(cudarc::get_lib_name_candidates("nccl")));
        }
        // SAFETY: the library is present.
        unsafe { NcclApi::look_up() }
    }

    /// The error for a code, with the library's description.
    fn error(&self, call: &'static str, code: u32) -> CallError {
        type Describe = unsafe extern "C" fn(c_uint) -> *const c_char;
        // SAFETY: the table exists, so the library is present; its function has this signature.
        let found = unsafe { sys::culib().get::<Describe>(b"ncclGetErrorString") };
        let text = found.ok().map(|describe| {
            // SAFETY: the function takes any number and returns a static text that ends in a zero, or null.
            unsafe {
                let text = describe(code);
                if text.is_null() { None } else { Some(CStr::from_ptr(text).to_string_lossy().into_owned()) }
            }
        });
        let text = text.flatten().unwrap_or_else(|| "no description".to_owned());
        CallError { call, code, name: "an error of NCCL".to_owned(), text }
    }
}

/// The bytes by which the ranks of a communicator find each other.
pub(crate) type NcclId = [u8; 128];

/// Makes an identifier, which one rank gives to all others.
///
/// # Errors
///
/// No library, or an error of the library.
pub(crate) fn new_id() -> Result<Result<NcclId, CallError>, LoadError> {
    let api = NcclApi::get()?;
    let mut id = ncclUniqueId { internal: [0; 128] };
    // SAFETY: a valid place for an identifier.
    let made = unsafe { api.ncclGetUniqueId(&raw mut id) };
    Ok(made.map(|()| id.internal.map(|byte| byte as u8)))
}

/// A range of device memory that takes part in an exchange, with its number of elements of a type, which
/// has a number of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exchange {
    /// Reduces range `at` in place, for all ranks.
    AllReduce { at: usize, count: usize, dtype: u32, by: u32 },
    /// Reduces range `at` in place, for one rank.
    Reduce { at: usize, count: usize, dtype: u32, by: u32, root: usize },
    /// Gives all ranks range `at` of one rank.
    Broadcast { at: usize, count: usize, dtype: u32, root: usize },
    /// Reduces range 0 and gives each rank a part of `count` elements in range 1.
    ReduceScatter { count: usize, dtype: u32, by: u32 },
    /// Gives all ranks range 0, of `count` elements, of each in range 1.
    AllGather { count: usize, dtype: u32 },
}

/// A connection of this process to the other ranks, on one device. It is made by the first exchange, which
/// waits for all ranks.
pub(crate) struct Communicator {
    id: NcclId,
    rank: usize,
    size: usize,
    connection: Mutex<Option<Arc<Connection>>>,
}

/// A handle of the library, which exists as long as this value.
struct Connection {
    api: &'static NcclApi,
    context: Arc<Context>,
    raw: ncclComm_t,
}

// SAFETY: the library accepts calls from any thread, one at a time, which the lock of `Communicator` ensures.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        // Errors are ignored: a communicator that cannot be destroyed belongs to a lost device.
        let _ = self.context.enter();
        // SAFETY: made by `Communicator::connection`, and no other value has it; the queue of each task
        // that uses it keeps the communicator alive until the task is done.
        let _ = unsafe { self.api.ncclCommDestroy(self.raw) };
    }
}

impl Communicator {
    pub(crate) fn new(id: NcclId, rank: usize, size: usize) -> Communicator {
        Communicator { id, rank, size, connection: Mutex::default() }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Submits exchanges of memory regions to a stream of the context, as one operation of the library. The
    /// caller keeps the communicator and the regions alive until the task is done.
    pub(super) fn submit(
        &self,
        context: &Arc<Context>,
        stream: CUstream,
        exchanges: &[Exchange],
        regions: &[MemoryRegion],
    ) -> Result<(), CallError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match &*connection {
            Some(connection) => connection,
            None => connection.insert(Arc::new(self.connect(context)?)),
        };
        if !Arc::ptr_eq(&connection.context, context) {
            let text = "the communicator is connected on another device".to_owned();
            return Err(CallError { call: "an exchange", code: 0, name: "wrong device".to_owned(), text });
        }
        let (api, communicator) = (connection.api, connection.raw);
        // SAFETY: no arguments.
        unsafe { api.ncclGroupStart()? };
        let submitted = exchanges.iter().try_for_each(|exchange| {
            // SAFETY: `Exchange` counts the elements of its ranges, which the caller has checked; their
            // memory belongs to the context of the communicator or to a peer of it.
            unsafe { submit_one(api, communicator, stream, *exchange, regions) }
        });
        // The group ends even if one of its calls was rejected.
        // SAFETY: no arguments.
        submitted.and(unsafe { api.ncclGroupEnd() })
    }

    /// Connects this rank on the device of a context. Waits for the other ranks.
    fn connect(&self, context: &Arc<Context>) -> Result<Connection, CallError> {
        let api = NcclApi::get().map_err(|error| load_error(&error))?;
        context.enter()?;
        let (mut raw, number) =
            (std::ptr::null_mut(), |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX));
        let id = ncclUniqueId { internal: self.id.map(|byte| byte as c_char) };
        // SAFETY: a valid place for a handle; the context of the device is current.
        unsafe { api.ncclCommInitRank(&raw mut raw, number(self.size), id, number(self.rank))? };
        Ok(Connection { api, context: Arc::clone(context), raw })
    }
}

/// # Safety
///
/// The regions have the elements that the exchange counts.
unsafe fn submit_one(
    api: &NcclApi,
    communicator: ncclComm_t,
    stream: CUstream,
    exchange: Exchange,
    regions: &[MemoryRegion],
) -> Result<(), CallError> {
    let address = |at: usize| regions.get(at).map_or(0, MemoryRegion::address) as *mut c_void;
    let root_number = |root: usize| c_int::try_from(root).unwrap_or(c_int::MAX);
    // SAFETY: the caller's promise; the stream belongs to the device of the communicator.
    unsafe {
        match exchange {
            Exchange::AllReduce { at, count, dtype, by } => {
                let memory = address(at);
                api.ncclAllReduce(memory, memory, count, dtype, by, communicator, stream)
            }
            Exchange::Reduce { at, count, dtype, by, root } => {
                let memory = address(at);
                api.ncclReduce(memory, memory, count, dtype, by, root_number(root), communicator, stream)
            }
            Exchange::Broadcast { at, count, dtype, root } => {
                let memory = address(at);
                api.ncclBroadcast(memory, memory, count, dtype, root_number(root), communicator, stream)
            }
            Exchange::ReduceScatter { count, dtype, by } => {
                api.ncclReduceScatter(address(0), address(1), count, dtype, by, communicator, stream)
            }
            Exchange::AllGather { count, dtype } => {
                api.ncclAllGather(address(0), address(1), count, dtype, communicator, stream)
            }
        }
    }
}

fn load_error(error: &LoadError) -> CallError {
    let text = match error {
        LoadError::NoLibrary(names) => format!("no library of the names {}", names.join(", ")),
        LoadError::NoSymbol(name) => format!("the library lacks `{name}`"),
    };
    CallError { call: "loading NCCL", code: 0, name: "not loaded".to_owned(), text }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}
