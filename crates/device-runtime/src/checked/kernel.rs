//! A kernel between artifact and launch: first loaded, then bound to memory. Each of these values has the
//! facts against which launches are checked.

use std::sync::Arc;

use codegen_core::{Access, Artifact, BASE_ALIGNMENT, KernelAbi, Param};
use smallvec::SmallVec;

use super::MemoryRange;
use crate::{
    check,
    driver::{BoundHandle, Driver, KernelHandle, SequenceHandle},
    error::{DriverError, Result},
};

/// The kernels of a loaded artifact.
#[derive(Debug)]
pub struct LoadedModule {
    kernels: Vec<LoadedKernel>,
}

impl LoadedModule {
    pub(crate) fn load(driver: &(impl Driver + ?Sized), artifact: &Artifact) -> Result<LoadedModule> {
        let kernels = driver.load(artifact)?.into_iter().zip(artifact.kernels());
        let kernels = kernels.map(|(handle, abi)| LoadedKernel { handle, abi: abi.clone() });
        Ok(LoadedModule { kernels: kernels.collect() })
    }

    /// The kernel at a position of the artifact.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoSuchEntry`].
    pub fn kernel(&self, index: usize) -> Result<LoadedKernel> {
        let kernels = self.kernels.len();
        self.kernels.get(index).cloned().ok_or(DriverError::NoSuchEntry { index, kernels })
    }
}

/// A kernel of a loaded artifact, with its ABI.
#[derive(Clone, Debug)]
pub struct LoadedKernel {
    handle: KernelHandle,
    abi: KernelAbi,
}

impl LoadedKernel {
    /// The parameters, launch and cost that the artifact states for the kernel.
    pub fn abi(&self) -> &KernelAbi {
        &self.abi
    }

    /// Binds the kernel to its memory: one range per memory parameter, at least as large as the parameter.
    ///
    /// # Errors
    ///
    /// Fails like [`KernelArgs::new`], or with an error of the driver.
    pub(crate) fn bind(
        &self,
        driver: &(impl Driver + ?Sized),
        ranges: &[MemoryRange],
    ) -> Result<BoundKernel> {
        let args = KernelArgs::new(self, driver.caps().alignment.max(BASE_ALIGNMENT), ranges)?;
        let indices = self.abi.params.iter().filter_map(|param| match param {
            Param::StaticIndex { range } => Some(*range),
            Param::Node { .. } | Param::MergeBuffer { .. } => None,
        });
        let call = KernelCall { name: self.abi.name.clone(), indices: indices.collect() };
        Ok(BoundKernel { handle: driver.bind(&args)?, call: Arc::new(call) })
    }
}

/// A kernel with one range per memory parameter. Each range has the parameter's size and is aligned to
/// [`Caps::alignment`](codegen_core::Caps::alignment) and [`BASE_ALIGNMENT`]; written ranges are writable and
/// overlap no other.
#[derive(Debug)]
pub struct KernelArgs<'a> {
    kernel: &'a KernelHandle,
    ranges: SmallVec<[MemoryRange; 8]>,
}

impl<'a> KernelArgs<'a> {
    /// # Errors
    ///
    /// [`DriverError::Arity`], [`DriverError::ReadOnly`], [`DriverError::Misaligned`],
    /// [`DriverError::OutOfBounds`] and [`DriverError::Overlap`].
    pub(crate) fn new(
        kernel: &'a LoadedKernel,
        alignment: usize,
        ranges: &[MemoryRange],
    ) -> Result<KernelArgs<'a>> {
        let abi = &kernel.abi;
        let params: SmallVec<[(Access, usize); 8]> = check::memory_params(abi).collect();
        check::count(&abi.name, "memory parameters", params.len(), ranges.len())?;
        let mut checked = SmallVec::new();
        for (position, (range, &(access, bytes))) in ranges.iter().zip(&params).enumerate() {
            if access != Access::Read {
                range.check_writable()?;
            }
            if !range.offset().is_multiple_of(alignment) {
                let (kernel, at) = (abi.name.clone(), range.location());
                return Err(DriverError::Misaligned { kernel, position, at, alignment });
            }
            checked.push(range.first(bytes).map_err(|_| too_short(abi, position, range, bytes))?);
        }
        check_overlap(abi, &params, &checked)?;
        Ok(KernelArgs { kernel: &kernel.handle, ranges: checked })
    }

    /// The driver's handle of the kernel, against whose ABI the ranges were checked.
    pub fn kernel(&self) -> &'a KernelHandle {
        self.kernel
    }

    /// One range per memory parameter, of exactly the parameter's size.
    pub fn ranges(&self) -> &[MemoryRange] {
        &self.ranges
    }
}

fn too_short(abi: &KernelAbi, position: usize, range: &MemoryRange, bytes: usize) -> DriverError {
    let what = format!("memory parameter {position} of kernel `{}` at {}", abi.name, range.location());
    DriverError::OutOfBounds { what, offset: 0, bytes, size: range.bytes() }
}

/// Checks that memory which a kernel writes belongs to no other parameter.
fn check_overlap(abi: &KernelAbi, params: &[(Access, usize)], ranges: &[MemoryRange]) -> Result<()> {
    let writes = |position: usize| params[position].0 != Access::Read;
    for second in 0..ranges.len() {
        for first in 0..second {
            if (writes(first) || writes(second)) && ranges[first].overlaps(&ranges[second]) {
                return Err(DriverError::Overlap { kernel: abi.name.clone(), first, second });
            }
        }
    }
    Ok(())
}

/// The facts by which launches of a bound kernel are checked.
#[derive(Debug)]
struct KernelCall {
    name: String,
    /// The end of each static index's range.
    indices: Vec<i64>,
}

/// A kernel bound to its memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BoundKernel {
    handle: BoundHandle,
    call: Arc<KernelCall>,
}

impl BoundKernel {
    pub(crate) fn handle(&self) -> &BoundHandle {
        &self.handle
    }

    pub(crate) fn name(&self) -> &str {
        &self.call.name
    }

    /// The number of values that a launch takes.
    pub(crate) fn static_indices(&self) -> usize {
        self.call.indices.len()
    }

    /// Checks that a launch has one value per static index, each within its range.
    ///
    /// # Errors
    ///
    /// [`DriverError::Arity`] and [`DriverError::BindingRange`].
    pub(crate) fn check(&self, bindings: &[i64]) -> Result<()> {
        let indices = &self.call.indices;
        if indices.len() != bindings.len() {
            return check::count(&self.call.name, "bindings", indices.len(), bindings.len());
        }
        let outside = |(end, value): &(&i64, &i64)| !(0..**end).contains(*value);
        match indices.iter().zip(bindings).find(outside) {
            None => Ok(()),
            Some((&range, &value)) => {
                Err(DriverError::BindingRange { kernel: self.call.name.clone(), range, value })
            }
        }
    }
}

/// Kernels that a driver launches together, in order.
#[derive(Debug)]
pub struct BoundSequence {
    handle: SequenceHandle,
    kernels: Vec<BoundKernel>,
}

impl BoundSequence {
    /// None if the driver gains nothing by launching the kernels together.
    pub(crate) fn new(
        driver: &(impl Driver + ?Sized),
        kernels: &[BoundKernel],
    ) -> Result<Option<BoundSequence>> {
        let handles: SmallVec<[BoundHandle; 8]> =
            kernels.iter().map(|kernel| kernel.handle.clone()).collect();
        let sequence = driver.sequence(&handles)?;
        Ok(sequence.map(|handle| BoundSequence { handle, kernels: kernels.to_vec() }))
    }

    pub(crate) fn handle(&self) -> &SequenceHandle {
        &self.handle
    }

    pub(crate) fn kernels(&self) -> &[BoundKernel] {
        &self.kernels
    }

    /// Checks the bindings of all kernels: one value per static index, kernel by kernel.
    pub(crate) fn check(&self, bindings: &[i64]) -> Result<()> {
        let expected = self.kernels.iter().map(BoundKernel::static_indices).sum();
        if expected != bindings.len() {
            let first = self.kernels.first().map_or("", BoundKernel::name);
            return check::count(first, "bindings for it and those behind it", expected, bindings.len());
        }
        let mut rest = bindings;
        for kernel in &self.kernels {
            let (own, behind) = rest.split_at(kernel.static_indices());
            kernel.check(own)?;
            rest = behind;
        }
        Ok(())
    }
}
