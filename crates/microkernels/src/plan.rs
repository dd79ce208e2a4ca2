//! The public plan: everything about a GEMM that can be decided before it runs.

use std::ops::Range;

use vector_asm::{Isa, LaneType, VectorAddress, VectorFunction};

use crate::address::{EpilogueAccesses, OutputAddress, is_independent, only_store};
use crate::blocking::{Blocking, GemmShape, Packing, cut, few_rows};
use crate::choice::{BlockingChoice, ChoiceError, PackedBlocks};
use crate::epilogue::{Epilogue, EpilogueFunctions, OperandAccess};
#[cfg(feature = "assembler")]
use crate::epilogue_code::EpilogueCode;
use crate::gemm::{BatchAddresses, BatchIteration, Gemm, ScratchLayout};
use crate::integer::IntegerGemm;
use crate::machine::CpuTarget;
use crate::operand::OperandLayout;
use crate::pack::columns_are_readable;
use crate::problem::{Dimension, DynamicExtent, GemmProblem, ParallelAxis};
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon;
use crate::simd::Simd;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::tile_shape::{TAPS, TileShape};

/// A GEMM planned for a CPU. It is immutable, any number of threads may run it at once, and running it
/// neither allocates nor blocks.
///
/// The results are the same bits on every CPU and for every division among threads.
#[derive(Debug)]
pub struct GemmPlan {
    /// Runs the product for each iteration of the batch.
    run: RunPlan,
    pub(crate) problem: GemmProblem,
    #[cfg_attr(not(feature = "assembler"), expect(dead_code, reason = "plans are made data with it"))]
    pub(crate) choice: Option<BlockingChoice>,
    product: PlannedProduct,
    extent: u64,
    grain: u64,
}

/// Computes a part of a plan, with the parameters of [`GemmPlan::run`].
type RunPlan = unsafe fn(&GemmPlan, *const *mut u8, *const i64, *mut u8, u64, u64);

/// A planned product of each kind of numbers: everything in a plan except the batch loops.
#[derive(Debug)]
enum PlannedProduct {
    Floats { gemm: Gemm, shape: GemmShape, layout: ScratchLayout },
    Integers(IntegerGemm),
}

impl PlannedProduct {
    fn operands(&self) -> [&OperandLayout; 2] {
        match self {
            PlannedProduct::Floats { gemm, .. } => [&gemm.a, &gemm.b],
            PlannedProduct::Integers(gemm) => [&gemm.checked.a, &gemm.checked.b],
        }
    }

    /// Where accumulators start and where they go.
    fn addresses(&self) -> [Option<&OutputAddress>; 2] {
        match self {
            PlannedProduct::Floats { gemm, .. } => [gemm.initial.as_ref(), gemm.output.as_ref()],
            PlannedProduct::Integers(gemm) => [gemm.checked.initial.as_ref(), gemm.checked.output.as_ref()],
        }
    }

    pub(crate) fn epilogue(&self) -> Option<&Epilogue> {
        match self {
            PlannedProduct::Floats { gemm, .. } => gemm.epilogue.as_ref(),
            PlannedProduct::Integers(gemm) => gemm.epilogue.as_ref(),
        }
    }

    /// Rows, columns and products of the problem.
    fn extents(&self) -> [usize; 3] {
        match self {
            PlannedProduct::Floats { gemm, .. } if gemm.is_transposed => [gemm.n, gemm.m, gemm.k],
            PlannedProduct::Floats { gemm, .. } => [gemm.m, gemm.n, gemm.k],
            PlannedProduct::Integers(IntegerGemm { checked: CheckedProblem { sizes, .. }, .. }) => *sizes,
        }
    }
}

/// What decides a plan, beside the problem and the CPU.
#[derive(Clone, Copy, Default)]
pub(crate) struct PlanSource<'a> {
    /// A choice of packing and block sizes instead of the heuristics.
    pub(crate) choice: Option<&'a BlockingChoice>,
    pub(crate) epilogue: EpilogueSource<'a>,
}

/// Where the code of an epilogue comes from.
#[derive(Clone, Copy, Default)]
pub(crate) enum EpilogueSource<'a> {
    /// It is compiled, and loaded into this process.
    #[default]
    Compiled,
    /// It is compiled for another process.
    #[cfg(feature = "assembler")]
    CompiledElsewhere,
    /// It was compiled before, and is loaded into this process.
    #[cfg(feature = "assembler")]
    Code(&'a EpilogueCode),
    /// It is in the program.
    Linked(&'a EpilogueFunctions, &'a [VectorFunction]),
}

impl PlanSource<'_> {
    /// Whether this process runs the plan.
    pub(crate) fn runs_here(self) -> bool {
        match self.epilogue {
            #[cfg(feature = "assembler")]
            EpilogueSource::CompiledElsewhere => false,
            _ => true,
        }
    }

    /// Whether plans may use an instruction set. Functions that a linker found are called by the convention
    /// of compiled programs, wherever the processor has the instructions.
    pub(crate) fn may_use(self, isa: Isa) -> bool {
        match self.epilogue {
            #[cfg(feature = "assembler")]
            EpilogueSource::CompiledElsewhere => true,
            EpilogueSource::Linked(..) => isa.is_supported(),
            _ => isa.is_available(),
        }
    }

    /// The epilogue, whose last block of K starts with accumulators at a place or with zeros.
    #[cfg_attr(not(feature = "assembler"), expect(unused_variables, reason = "only code starts there"))]
    pub(crate) fn epilogue(
        self,
        problem: &GemmProblem,
        access: &OperandAccess,
        initial: Option<&VectorAddress>,
    ) -> Option<Epilogue> {
        match self.epilogue {
            #[cfg(not(feature = "assembler"))]
            EpilogueSource::Compiled => None,
            #[cfg(feature = "assembler")]
            EpilogueSource::Compiled => {
                let code = EpilogueCode::compile(problem, access, initial)?;
                Epilogue::of_code(problem, access, &code)
            }
            #[cfg(feature = "assembler")]
            EpilogueSource::CompiledElsewhere => {
                let code = EpilogueCode::compile(problem, access, initial)?;
                Some(Epilogue::unloaded(problem, access, code))
            }
            #[cfg(feature = "assembler")]
            EpilogueSource::Code(code) => Epilogue::of_code(problem, access, code),
            EpilogueSource::Linked(order, functions) => {
                Epilogue::of_functions(problem, access, order, functions)
            }
        }
    }
}

/// What plans of all kinds check first.
#[derive(Debug)]
pub(crate) struct CheckedProblem {
    /// M, N and K.
    pub(crate) sizes: [usize; 3],
    pub(crate) a: OperandLayout,
    pub(crate) b: OperandLayout,
    pub(crate) initial: Option<OutputAddress>,
    /// Where the accumulators are stored, if the epilogue does nothing else.
    pub(crate) output: Option<OutputAddress>,
}

impl CheckedProblem {
    fn of(problem: &GemmProblem) -> Option<CheckedProblem> {
        let bytes = i64::from(problem.element.bytes());
        let narrow = |extent: u64| u32::try_from(extent).ok().map(|extent| extent as usize);
        let accesses = EpilogueAccesses::of(&problem.epilogue)?;
        let is_known = |(dimension, _): &(Dimension, DynamicExtent)| match dimension {
            Dimension::Batch(at) => *at < problem.batch.len(),
            Dimension::M | Dimension::N => true,
            Dimension::K => problem.element != LaneType::I32,
        };
        let is_valid = problem.batch.len() <= MAX_BATCH_LOOPS && problem.dynamic.iter().all(is_known);
        if !is_valid || !is_independent(problem, &accesses) {
            return None;
        }
        let initial = match &problem.initial {
            Some(place) => Some(OutputAddress::new(problem, place, bytes)?),
            None => None,
        };
        Some(CheckedProblem {
            sizes: [narrow(problem.m)?, narrow(problem.n)?, narrow(problem.k)?],
            a: OperandLayout::new(problem, &problem.a, problem.m, bytes)?,
            b: OperandLayout::new(problem, &problem.b, problem.n, bytes)?,
            initial,
            output: only_store(&problem.epilogue).and_then(|at| OutputAddress::new(problem, at, bytes)),
        })
    }
}

/// The most batch loops of a problem.
const MAX_BATCH_LOOPS: usize = 8;

/// The extents of one call: of batch loops, 1 behind the last, and of rows, columns and products.
struct CallExtents {
    batch: [u64; MAX_BATCH_LOOPS],
    product: [usize; 3],
}

/// Multiply-adds that are worth a thread: some ten microseconds of work.
const MIN_PART_FMAS: u64 = 1 << 18;

/// The same for products of integers, which take less time.
const MIN_PART_INTEGER_PRODUCTS: u64 = 1 << 20;

impl GemmPlan {
    /// Plans a GEMM for a CPU.
    ///
    /// Returns `None` if this crate cannot compute the problem on this CPU: the CPU lacks the instruction set
    /// of `cpu`, or there is none; the element is neither a float nor, on x86-64, `I32`; an operand or the
    /// initial accumulators have a layout that [`GemmOperand`](crate::GemmOperand) or
    /// [`GemmProblem::initial`] does not allow; the epilogue has loops, or operations that the instruction
    /// set lacks; or two outputs, or an output and a value that is read, might share an element.
    pub fn new(problem: &GemmProblem, cpu: &CpuTarget) -> Option<GemmPlan> {
        GemmPlan::planned(problem, cpu, PlanSource::default())?.ok()
    }

    /// [`GemmPlan::new`] with a choice of packing and block sizes instead of the heuristics. The results are
    /// the same bits with every choice.
    ///
    /// # Errors
    ///
    /// [`ChoiceError`] if the choice does not fit the problem.
    pub fn with_blocking(
        problem: &GemmProblem,
        cpu: &CpuTarget,
        choice: &BlockingChoice,
    ) -> Result<Option<GemmPlan>, ChoiceError> {
        GemmPlan::planned(problem, cpu, PlanSource { choice: Some(choice), ..PlanSource::default() })
            .transpose()
    }

    /// The choice of packing and block sizes that gives this plan. Of a product of integers, the sizes of its
    /// blocks, which cannot be chosen.
    pub fn blocking(&self) -> BlockingChoice {
        match &self.product {
            PlannedProduct::Floats { gemm, shape, .. } => gemm.blocking.choice(shape),
            PlannedProduct::Integers(gemm) => {
                let [mc, kc, nc] = gemm.block().map(|size| size as u32);
                BlockingChoice::Blocks { packed: PackedBlocks::Both, mc, kc, nc }
            }
        }
    }

    /// Choices near that of this plan, without it. A search that goes from plan to plan reaches every packing
    /// and many sizes of blocks.
    pub fn alternatives(&self, cpu: &CpuTarget) -> Vec<BlockingChoice> {
        match &self.product {
            PlannedProduct::Floats { gemm, shape, .. } => gemm.blocking.alternatives(shape, cpu),
            PlannedProduct::Integers(_) => Vec::new(),
        }
    }

    /// Bytes of scratch memory that each call needs for itself.
    pub fn scratch_bytes(&self) -> usize {
        match &self.product {
            PlannedProduct::Floats { layout, .. } => layout.bytes,
            PlannedProduct::Integers(gemm) => gemm.scratch_bytes(),
        }
    }

    /// The end of the range that calls divide: the extent of [`GemmProblem::parallel`]'s loop, or 1 if there
    /// is none.
    pub fn extent(&self) -> u64 {
        self.extent
    }

    /// The number of iterations that parts should be multiples of. A smaller part is not worth a thread,
    /// because each part packs operands for itself and may leave tiles partly empty.
    pub fn grain(&self) -> u64 {
        self.grain
    }

    /// The tiles and the packing of operands in words, for reports: `tiles of 6x16, operands in place`.
    pub fn choices(&self) -> String {
        match &self.product {
            PlannedProduct::Floats { gemm, .. } => {
                let transposed = if gemm.is_transposed { "transposed, " } else { "" };
                format!("tiles of {}x{}, {transposed}{}", gemm.height, gemm.panel, gemm.blocking)
            }
            PlannedProduct::Integers(gemm) => gemm.to_string(),
        }
    }

    #[cfg(feature = "assembler")]
    pub(crate) fn epilogue(&self) -> Option<&Epilogue> {
        self.product.epilogue()
    }

    /// Bytes of memory that generated code takes; 0 without such code.
    #[cfg(feature = "assembler")]
    pub fn code_bytes(&self) -> usize {
        self.product.epilogue().map_or(0, Epilogue::code_bytes)
    }

    /// The machine code of each generated function, followed by its constants; nothing if the microkernels
    /// that were compiled ahead of time suffice.
    #[cfg(feature = "assembler")]
    pub fn machine_code(&self) -> impl Iterator<Item = &[u8]> {
        self.product.epilogue().into_iter().flat_map(Epilogue::machine_code)
    }

    /// Computes the part `begin..end` of `0..`[`extent`](GemmPlan::extent), which indexes the loop that
    /// [`ParallelAxis`] names. Without such a loop, a call with a range that is not empty computes
    /// everything.
    ///
    /// # Safety
    ///
    /// `args` points to the base addresses, aligned to their elements, and `bindings` to the integers that
    /// the problem accesses. Memory that the problem reads may be read, and memory that it writes may be
    /// written. During the call, no other code writes the memory that the problem reads or accesses the
    /// memory that it writes, except calls for other parts. Two bases that overlap are both only read.
    /// `scratch` points to [`scratch_bytes`](GemmPlan::scratch_bytes) bytes, aligned to 64, that no other
    /// call uses at the same time. `begin ≤ end ≤ extent`.
    pub unsafe fn run(
        &self,
        args: *const *mut u8,
        bindings: *const i64,
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) {
        // SAFETY: the caller's promise; a plan exists only for a CPU that has the vector extensions.
        unsafe { (self.run)(self, args, bindings, scratch, begin, end) }
    }

    pub(crate) fn planned(
        problem: &GemmProblem,
        cpu: &CpuTarget,
        source: PlanSource<'_>,
    ) -> Option<Result<GemmPlan, ChoiceError>> {
        let isa = cpu.isa_for(problem).filter(|&isa| source.may_use(isa))?;
        if problem.element == LaneType::I32 {
            return GemmPlan::of_integers(problem, isa, cpu, source);
        }
        let run = match source.runs_here() {
            true => run_floats(isa, problem.element)?,
            false => run_elsewhere,
        };
        GemmPlan::of_floats(problem, &TileShape::of(isa, problem.element)?, run, cpu, source)
    }

    /// `None` if there is no plan whatever the choice.
    fn of_floats(
        problem: &GemmProblem,
        tiles: &TileShape,
        run: RunPlan,
        cpu: &CpuTarget,
        source: PlanSource<'_>,
    ) -> Option<Result<GemmPlan, ChoiceError>> {
        let CheckedProblem { sizes: [m, n, k], a, b, initial, output } = CheckedProblem::of(problem)?;
        let only_stored = output.is_some();
        let (partial_sums, output) = match output {
            Some(output) => (None, Some(output)),
            None => partial_sum_output(problem, tiles.bytes as i64).unzip(),
        };
        let is_transposed = is_better_transposed(problem, [&a, &b], [m, n, k], cpu);
        let sums_in_scratch = is_transposed || output.is_none() && is_better_cut([m, n, k], tiles.bytes, cpu);
        let (m, n, a, b) = if is_transposed { (n, m, b, a) } else { (m, n, a, b) };
        // Strided reads of A are cheap if all of A stays in the L1 cache.
        let near = m * k * tiles.bytes <= cpu.l1_bytes;
        let shape = GemmShape {
            m,
            n,
            k,
            bytes: tiles.bytes,
            height: tiles.rows,
            width: tiles.width(),
            a_has_strides: a.strides().is_some(),
            a_is_readable: a.strides().is_some() && (near || a.k_is_contiguous),
            a_is_indexed: a.is_indexed(),
            b_is_readable: b.strides().is_some() && b.outer_is_contiguous(),
            b_k_stride: b.strides().map_or(0, |(_, k)| k),
            k_can_be_cut: output.is_some() || sums_in_scratch,
            is_transposed,
            b_is_shared: problem.batch.iter().any(|&extent| extent > 1)
                && a.strides().is_some()
                && b.batch.iter().all(|&bytes| bytes == 0),
        };
        let blocking = match source.choice.map(|choice| Blocking::chosen(&shape, choice)) {
            None => Blocking::new(&shape, cpu),
            Some(Ok(blocking)) => blocking,
            Some(Err(error)) => return Some(Err(error)),
        };
        let has_dynamic_rows = problem.dynamic.iter().any(|(of, _)| *of == Dimension::M);
        let few_rows = if has_dynamic_rows { few_rows(blocking.packing, &shape, cpu) } else { 0 };
        let b_is_far = (!blocking.packing.packs_b() || few_rows > 0)
            && shape.b_bytes() > cpu.l2_bytes / 2
            && blocking.kc <= shape.near_rows(cpu);
        let packs_in_tiles = tiles.packs
            && matches!(blocking.packing, Packing::WholeA | Packing::Blocks { a: true, b: true })
            && columns_are_readable(&b);
        let epilogue = if only_stored && !is_transposed {
            None
        } else {
            let is_far = b_is_far && !blocking.packing.packs_b();
            let mut access = Gemm::operand_access(tiles, &a, &b, k, &blocking, [is_far, packs_in_tiles]);
            access.is_fusible &= !sums_in_scratch;
            let initial = if access.k < k { partial_sums } else { problem.initial.as_ref() };
            Some(source.epilogue(problem, &access, initial)?)
        };
        let k_offsets: Option<Vec<i64>> =
            matches!(blocking.packing, Packing::Blocks { a: false, .. } if a.is_indexed())
                .then(|| (0..k).map(|k| a.k.at(k) as i64).collect());
        let k_runs = k_offsets.as_ref().and_then(|_| a.long_k_runs(k));
        let is_grouped = |size: usize| (size != TAPS || k_runs.is_some()) && a.outer_is_grouped(m, size);
        let row_groups = match is_transposed && k_offsets.is_some() && n <= tiles.lanes {
            true => tiles.row_groups.iter().position(|groups| is_grouped(groups.size)),
            false => None,
        };
        let gemm = Gemm {
            m,
            n,
            k,
            initial,
            output,
            epilogue,
            panel: shape.panel(blocking.packing),
            packs_in_tiles,
            blocking,
            few_rows,
            height: match row_groups.map(|at| &tiles.row_groups[at]) {
                Some(of) => of.size * of.groups,
                None if k_offsets.is_some() => tiles.indexed_rows,
                None => tiles.rows,
            },
            k_runs,
            row_groups,
            k_offsets,
            is_transposed,
            sums_in_scratch,
            b_is_far,
            a,
            b,
        };
        let layout = gemm.layout(tiles);
        // Parts have whole groups of rows.
        let unit = row_groups.map_or(1, |at| tiles.row_groups[at].size);
        let [rows, columns] = [tiles.rows / unit * unit, tiles.width()];
        let tile = if is_transposed { [columns, rows] } else { [rows, columns] };
        let product = PlannedProduct::Floats { gemm, shape, layout };
        Some(Ok(GemmPlan::of_product(problem, source, run, product, tile, MIN_PART_FMAS)))
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn of_integers(
        _: &GemmProblem,
        _: Isa,
        _: &CpuTarget,
        _: PlanSource<'_>,
    ) -> Option<Result<GemmPlan, ChoiceError>> {
        None
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn of_integers(
        problem: &GemmProblem,
        isa: Isa,
        cpu: &CpuTarget,
        source: PlanSource<'_>,
    ) -> Option<Result<GemmPlan, ChoiceError>> {
        let gemm = IntegerGemm::new(problem, isa, cpu, CheckedProblem::of(problem)?, source)?;
        if let Some(&found) = source.choice {
            return Some(Err(ChoiceError::Integers { found }));
        }
        let tile = gemm.tile();
        let product = PlannedProduct::Integers(gemm);
        let run = if source.runs_here() { GemmPlan::run_integers } else { run_elsewhere };
        Some(Ok(GemmPlan::of_product(problem, source, run, product, tile, MIN_PART_INTEGER_PRODUCTS)))
    }

    /// The plan with a product, whose tiles have so many rows and columns of the problem. `part`
    /// multiply-adds are worth a thread.
    fn of_product(
        problem: &GemmProblem,
        source: PlanSource<'_>,
        run: RunPlan,
        product: PlannedProduct,
        tile: [usize; 2],
        part: u64,
    ) -> GemmPlan {
        let (extent, unit, least) = parallel_loop(problem, tile.map(|size| size as u64));
        let grain = part.div_ceil(unit.max(1)).max(least).next_multiple_of(least).min(extent.max(1));
        GemmPlan { run, problem: problem.clone(), choice: source.choice.copied(), product, extent, grain }
    }

    /// [`GemmPlan::run`] for products of floats.
    unsafe fn run_floats<V: Simd>(
        &self,
        args: *const *mut u8,
        bindings: *const i64,
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) {
        let PlannedProduct::Floats { gemm, layout, .. } = &self.product else {
            unreachable!("a plan for vectors of floats");
        };
        let columns = gemm.shared_columns();
        // SAFETY: the caller's promise; all iterations have the same rows.
        unsafe {
            self.run_with(args, bindings, scratch, begin..end, columns, |base, outputs, k, iteration| {
                gemm.run::<V>(layout, base, outputs, k, iteration)
            })
        }
    }

    /// [`GemmPlan::run`] for products of integers.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe fn run_integers(
        &self,
        args: *const *mut u8,
        bindings: *const i64,
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) {
        let PlannedProduct::Integers(gemm) = &self.product else { unreachable!("a plan for integers") };
        // SAFETY: the caller's promise; all iterations have the same columns.
        unsafe {
            self.run_with(args, bindings, scratch, begin..end, usize::MAX, |base, outputs, _, iteration| {
                let [rows, columns] = outputs;
                gemm.run(base, rows, columns, gemm.has_one_b() && !iteration.is_first)
            })
        }
    }

    /// Runs the product for each iteration of the batch: for so many columns at a time, whose first iteration
    /// may prepare what the others use.
    #[inline(always)]
    unsafe fn run_with(
        &self,
        args: *const *mut u8,
        bindings: *const i64,
        scratch: *mut u8,
        part: Range<u64>,
        columns_at_once: usize,
        run: impl Fn(&BatchAddresses, [Range<usize>; 2], usize, BatchIteration),
    ) {
        let range = part.start as usize..part.end as usize;
        // SAFETY: the caller's promise.
        let CallExtents { batch, product: [m, n, k] } = unsafe { self.call_extents(bindings) };
        let (mut rows, mut columns, mut outermost) = (0..m, 0..n, 0..batch[0]);
        match self.problem.parallel {
            ParallelAxis::None => {}
            ParallelAxis::Batch => outermost = part.start..part.end.min(batch[0]),
            ParallelAxis::Rows => rows = range.start..range.end.min(m),
            ParallelAxis::Columns => columns = range.start..range.end.min(n),
        }
        if range.is_empty() || rows.is_empty() || columns.is_empty() || batch.contains(&0) {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let address = |matrix: Option<&OutputAddress>| {
                matrix.map_or(std::ptr::null_mut(), |matrix| matrix.address(args, bindings))
            };
            let ([a, b], [initial, output]) = (self.product.operands(), self.product.addresses());
            let mut base = BatchAddresses {
                a: a.address(args, bindings),
                b: b.address(args, bindings),
                initial: address(initial),
                output: address(output),
                scratch,
            };
            let words = scratch.cast::<i64>();
            if let Some(epilogue) = self.product.epilogue() {
                epilogue.write_constants(words, args, bindings);
            }
            if self.problem.batch.is_empty() {
                return run(&base, [rows, columns], k, BatchIteration { is_first: true, count: 1 });
            }
            let others = batch[1..].iter().fold(1, |product: u64, extent| product.saturating_mul(*extent));
            let count = (outermost.end - outermost.start).saturating_mul(others);
            let mut start = [0; MAX_BATCH_LOOPS];
            self.advance(&mut base, &mut start, 0, outermost.start as i64);
            for columns in cut(columns, columns_at_once) {
                let (mut base, mut at) = (base, start);
                let mut iteration = BatchIteration { is_first: true, count };
                while at[0] < outermost.end {
                    if let Some(epilogue) = self.product.epilogue() {
                        epilogue.write_batch_indices(words, &at);
                    }
                    run(&base, [rows.clone(), columns.clone()], k, iteration);
                    iteration.is_first = false;
                    self.next(&mut base, &mut at, &batch);
                }
            }
        }
    }

    /// Advances the batch indices by one iteration; the innermost loop advances first.
    #[inline(always)]
    fn next(
        &self,
        base: &mut BatchAddresses,
        at: &mut [u64; MAX_BATCH_LOOPS],
        extents: &[u64; MAX_BATCH_LOOPS],
    ) {
        for i in (0..self.problem.batch.len()).rev() {
            self.advance(base, at, i, 1);
            if i == 0 || at[i] < extents[i] {
                return;
            }
            self.advance(base, at, i, -(extents[i] as i64));
        }
    }

    /// The extents of one call.
    ///
    /// # Safety
    ///
    /// `bindings` points to the integers that the problem accesses.
    #[inline(always)]
    unsafe fn call_extents(&self, bindings: *const i64) -> CallExtents {
        let mut extents = CallExtents { batch: [1; MAX_BATCH_LOOPS], product: self.product.extents() };
        extents.batch[..self.problem.batch.len()].copy_from_slice(&self.problem.batch);
        for (dimension, DynamicExtent { offset, terms }) in &self.problem.dynamic {
            let value = terms.iter().fold(*offset, |sum, &(binding, factor)| {
                // SAFETY: the caller's promise.
                sum.wrapping_add(factor.wrapping_mul(unsafe { *bindings.add(binding as usize) }))
            });
            let value = value.max(0) as u64;
            let [m, n, k] = &mut extents.product;
            let size = match dimension {
                Dimension::Batch(at) => {
                    extents.batch[*at] = extents.batch[*at].min(value);
                    continue;
                }
                Dimension::M => m,
                Dimension::N => n,
                Dimension::K => k,
            };
            *size = value.min(*size as u64) as usize;
        }
        extents
    }

    #[inline(always)]
    fn advance(&self, base: &mut BatchAddresses, at: &mut [u64; MAX_BATCH_LOOPS], index: usize, by: i64) {
        at[index] = at[index].wrapping_add_signed(by);
        let ([a, b], [initial, output]) = (self.product.operands(), self.product.addresses());
        let bytes = |batch: &[i64]| (batch[index] * by) as isize;
        base.a = base.a.wrapping_offset(bytes(&a.batch));
        base.b = base.b.wrapping_offset(bytes(&b.batch));
        if let Some(initial) = initial {
            base.initial = base.initial.wrapping_offset(bytes(&initial.batch));
        }
        if let Some(output) = output {
            base.output = base.output.wrapping_offset(bytes(&output.batch));
        }
    }
}

/// The function that runs plans of floats with the vectors of an instruction set of this architecture.
fn run_floats(isa: Isa, element: LaneType) -> Option<RunPlan> {
    match (isa, element) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, LaneType::F32) => Some(GemmPlan::run_floats::<Avx2<f32>>),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, LaneType::F64) => Some(GemmPlan::run_floats::<Avx2<f64>>),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, LaneType::F32) => Some(GemmPlan::run_floats::<Avx512<f32>>),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, LaneType::F64) => Some(GemmPlan::run_floats::<Avx512<f64>>),
        #[cfg(target_arch = "aarch64")]
        (Isa::Neon, LaneType::F32) => Some(GemmPlan::run_floats::<Neon<f32>>),
        #[cfg(target_arch = "aarch64")]
        (Isa::Neon, LaneType::F64) => Some(GemmPlan::run_floats::<Neon<f64>>),
        _ => None,
    }
}

/// The function of plans that another process runs: nothing calls it.
unsafe fn run_elsewhere(_: &GemmPlan, _: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {
    unreachable!("a plan for another process");
}

/// Whether a product is faster with its operands exchanged: B is addressed by tables, so that packing it is
/// slow, while microkernels can read such an operand in place of A. The sums must fit in the L2 cache, and be
/// so long that the epilogue's reads of them do not matter.
///
/// Gradients of filters are such products: they have long sums, and the elements of A that a position along K
/// multiplies are contiguous. Convolutions with few output channels, whose channels are not the last axis,
/// are others: few rows use each packed element of B.
fn is_better_transposed(
    problem: &GemmProblem,
    [a, b]: [&OperandLayout; 2],
    [m, n, k]: [usize; 3],
    cpu: &CpuTarget,
) -> bool {
    let sums = m.max(MAX_FEW_ROWS).saturating_mul(n).saturating_mul(problem.element.bytes() as usize);
    let has_long_sums = k >= MIN_LONG_K && a.strides().is_some() && a.outer_is_contiguous();
    let pays = n >= 4 * MAX_FEW_ROWS && k >= MIN_SHORT_K || k >= MIN_LONG_K;
    let has_few_rows = a.limits.is_empty()
        && (m <= MAX_FEW_ROWS && pays || m <= n.min(MAX_EXCHANGED_ROWS) && k >= MIN_EXCHANGED_K);
    problem.initial.is_none() && b.is_indexed() && (has_long_sums || has_few_rows) && sums <= cpu.l2_bytes / 2
}

/// Whether a product whose partial sums have no output to go to is faster with its sums in scratch memory:
/// they are so long that blocks of whole sums would leave few rows of A in the L2 cache, and of a size that
/// the L3 cache holds beside the operands.
fn is_better_cut([m, n, k]: [usize; 3], element: usize, cpu: &CpuTarget) -> bool {
    let sums = m.saturating_mul(n).saturating_mul(element);
    k >= MIN_CUT_K && m > MAX_FEW_ROWS && n > MAX_FEW_ROWS && sums <= cpu.l3_bytes / 8
}

/// The fewest products of a sum that is cut for the sake of blocks alone.
const MIN_CUT_K: usize = 1024;

/// The fewest products of a long sum.
const MIN_LONG_K: usize = 256;

/// The most rows, and the fewest products of each sum, of a product whose operands are exchanged although a
/// tile has fewer columns than it has rows: exchanging sums takes little of its time.
const MAX_EXCHANGED_ROWS: usize = 64;
const MIN_EXCHANGED_K: usize = 2048;

/// The fewest products of each sum for which a product with few rows and many columns is computed transposed.
const MIN_SHORT_K: usize = 16;

/// The most rows that are few: the columns of a tile.
const MAX_FEW_ROWS: usize = 16;

/// Finds an output that can hold the partial sums between blocks of K, until the epilogue overwrites them.
/// The epilogue must store this output and must not read it.
fn partial_sum_output(problem: &GemmProblem, bytes: i64) -> Option<(&VectorAddress, OutputAddress)> {
    let accesses = EpilogueAccesses::of(&problem.epilogue)?;
    (accesses.stores.iter())
        .filter(|store| accesses.loads.iter().all(|load| load.base != store.base))
        .find_map(|store| {
            Some((*store, OutputAddress::new(problem, store, bytes).filter(|matrix| matrix.column > 0)?))
        })
}

/// For the parallel loop: its extent, the multiply-adds of one iteration, and the iterations that fill a
/// tile.
fn parallel_loop(problem: &GemmProblem, [tile_rows, tile_columns]: [u64; 2]) -> (u64, u64, u64) {
    let batch = |loops: &[u64]| loops.iter().fold(1u64, |product, extent| product.saturating_mul(*extent));
    let all = batch(&problem.batch);
    let times = |extents: [u64; 3]| batch(&extents);
    match problem.parallel {
        ParallelAxis::None => (1, u64::MAX, 1),
        ParallelAxis::Batch => (
            problem.batch.first().copied().unwrap_or(1),
            times([problem.m, problem.n, problem.k])
                .saturating_mul(all / problem.batch.first().copied().unwrap_or(1).max(1)),
            1,
        ),
        ParallelAxis::Rows => (problem.m, times([all, problem.n, problem.k]), tile_rows),
        ParallelAxis::Columns => (problem.n, times([all, problem.m, problem.k]), tile_columns),
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<GemmPlan>();
};
