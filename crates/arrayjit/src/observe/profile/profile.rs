//! The profile of a linked routine as data.

use device_runtime::LaunchSize;
use serde::{Serialize, Serializer};

use super::{
    call::CallDescription,
    memory::MemoryPlan,
    page,
    roofline::{Roofline, RooflineShare},
    table,
};

/// The time, work and memory of the runs of a linked routine so far.
///
/// As JSON, a profile has the names of these fields; fields may be added, none renamed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Profile {
    /// The routine's name.
    pub routine: String,
    /// The name of the device.
    pub device: String,
    /// The number of threads that a kernel may be split over; on GPUs 1.
    pub threads: usize,
    /// The time of a run: from the begin of its first kernel call to the end of its last one. `None` before
    /// the first measured run. On a device that cannot time kernels, from the submission until the host has
    /// waited for the run.
    pub run_time: Option<TimeSummary>,
    /// The kernel calls in the order in which they run.
    pub calls: Vec<ProfiledCall>,
    /// The bytes that are alive during each call.
    pub memory: MemoryPlan,
    /// The limits of the device to which calls are compared, if they were measured.
    pub roofline: Option<Roofline>,
    /// Restrictions of this profile, as sentences.
    pub notes: Vec<String>,
}

/// A kernel call with its times.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProfiledCall {
    /// The nodes, statements, work and code of the call.
    #[serde(flatten)]
    pub description: CallDescription,
    /// The name of the device that runs it. Calls that fall back have another one than the routine.
    pub device: String,
    /// The times of the call; `None` if it has not run, or on a device that cannot time kernels.
    pub time: Option<TimeSummary>,
    /// The begin and end of the call in a typical run: the run of median duration among the last ones.
    pub interval: Option<CallInterval>,
    /// The grid of the launch and the resources of the compiled kernel; `None` if the call has not run, and
    /// on devices without blocks of threads.
    #[serde(serialize_with = "launch", skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchSize>,
    /// How close the call's median time is to the least time that the device needs for its work.
    pub roofline_share: Option<RooflineShare>,
}

/// Times of something that is repeated, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TimeSummary {
    /// How often it was measured.
    pub count: u64,
    /// The median of the last 1,024 times.
    pub median_us: f64,
    /// The sum of all times.
    pub total_us: f64,
}

/// The begin and end of a kernel call, in microseconds from the begin of the run's first call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallInterval {
    /// The begin.
    pub begin_us: f64,
    /// The end.
    pub end_us: f64,
}

fn launch<S: Serializer>(size: &Option<LaunchSize>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Launch {
        blocks: u32,
        threads: u32,
        registers: u32,
        shared_bytes: u32,
        local_bytes: u32,
    }
    let launch = size.map(|LaunchSize { blocks, threads, registers, shared_bytes, local_bytes }| Launch {
        blocks,
        threads,
        registers,
        shared_bytes,
        local_bytes,
    });
    launch.serialize(serializer)
}

impl Profile {
    /// A table for terminals: a line per kernel call, the longest first, with the statements and the reason
    /// why a call has no vector program below it. Calls that do the same, such as the steps of a scan, share
    /// a line with the sums of their times and of their work. Lines of less than a hundredth of the time are
    /// together the last one.
    pub fn to_table(&self) -> String {
        table::table(self)
    }

    /// The profile as JSON, with the names of the fields of this type.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// A page that needs no other file and no network: a flame chart of a typical run, the bytes that are
    /// alive during it, and a table of the kernel calls.
    pub fn to_html(&self) -> String {
        page::page(std::slice::from_ref(self))
    }

    /// One page for several routines.
    pub fn page(profiles: &[Profile]) -> String {
        page::page(profiles)
    }

    /// The profile with other limits of the device, or without any.
    #[must_use]
    pub fn with_roofline(mut self, roofline: Option<Roofline>) -> Profile {
        for call in &mut self.calls {
            let limits = roofline.as_ref().filter(|_| call.device == self.device).zip(call.time);
            call.roofline_share =
                limits.and_then(|(limits, time)| limits.share(&call.description.cost, time.median_us));
        }
        self.roofline = roofline;
        self
    }

    /// The sum of the median times of all calls in microseconds, without the time between calls.
    pub fn kernel_us(&self) -> f64 {
        self.calls.iter().map(ProfiledCall::median_us).sum()
    }
}

impl ProfiledCall {
    /// The median time in microseconds; 0 if the call was not timed.
    pub fn median_us(&self) -> f64 {
        self.time.map_or(0.0, |time| time.median_us)
    }

    /// Floating-point operations per nanosecond: GFLOP/s. 0 if the call was not timed.
    pub fn gflops(&self) -> f64 {
        self.rate(self.description.cost.flops)
    }

    /// Distinct bytes read and written per nanosecond: GB/s. 0 if the call was not timed.
    pub fn gbps(&self) -> f64 {
        self.rate(self.description.cost.bytes)
    }

    fn rate(&self, amount: f64) -> f64 {
        if self.median_us() > 0.0 { amount / self.median_us() / 1e3 } else { 0.0 }
    }
}

/// A made profile, for tests of its forms.
#[cfg(test)]
pub(super) mod example {
    use codegen_core::{CompilationMethod, Cost};

    use super::*;
    use crate::profile::{Bandwidth, CallOperand, Limit, OperandMemory, PlannedMemory, Statement};

    /// A matmul, a sum that is not vectorized, and a fill that takes almost no time.
    pub(in crate::observe::profile) fn profile() -> Profile {
        let operand = |name: &str, memory, bytes| CallOperand { name: name.into(), memory, bytes };
        let statement = |text: &str, line: &str, user_line, call: Option<&str>| Statement {
            text: text.into(),
            line: Some(line.into()),
            user_line: Some(user_line),
            call: call.map(Into::into),
        };
        let (x, w) = (operand("x", OperandMemory::Context, 4096), operand("w", OperandMemory::Context, 4096));
        let (h, s) =
            (operand("h", OperandMemory::Temporary, 4096), operand("s", OperandMemory::Context, 128));
        let gemm = CompilationMethod::new("GEMM 32x32x32 by microkernels")
            .with_choices("tiles of 6x16, operands in place");
        let call = |kernel: &str, reads, writes, statements, cost, method, time, interval| ProfiledCall {
            description: CallDescription {
                kernel: kernel.into(),
                reads,
                writes,
                statements,
                cost,
                methods: vec![method],
            },
            device: "multicore:0".into(),
            time: Some(time),
            interval: Some(interval),
            launch: None,
            roofline_share: None,
        };
        let cost = |flops, bytes| Cost { flops, integer_ops: 0.0, bytes };
        let time = |median_us| TimeSummary { count: 4, median_us, total_us: 4.5 * median_us };
        let interval = |begin_us, end_us| CallInterval { begin_us, end_us };
        let matmul = statement("h[i,j] :+= x[i,k] * w[k,j]", "line 1", 1, None);
        let softmax =
            statement("m[..] :max= x[..,k]", "prelude/norms.assign, line 9", 3, Some("softmax(h[i,j])"));
        let calls = vec![
            call(
                "step_k0",
                vec![],
                vec![s.clone()],
                vec![],
                cost(0.0, 128.0),
                CompilationMethod::new("a vector program").with_choices("8 lanes"),
                time(0.02),
                interval(0.0, 0.02),
            ),
            call(
                "step_k1",
                vec![x, w],
                vec![h.clone()],
                vec![matmul],
                cost(65536.0, 12288.0),
                gemm,
                time(1.0),
                interval(0.03, 1.03),
            ),
            call(
                "step_k2",
                vec![h],
                vec![s],
                vec![softmax],
                cost(1024.0, 4224.0),
                CompilationMethod::new("Cranelift's code").not_vectorized("an index is computed"),
                time(3.0),
                interval(1.1, 4.1),
            ),
        ];
        let planned =
            |name: &str, bytes, calls, offset| PlannedMemory { name: name.into(), bytes, calls, offset };
        let memory = MemoryPlan {
            nodes: vec![
                planned("x", 4096, (1, 1), None),
                planned("w", 4096, (1, 1), None),
                planned("s", 128, (0, 2), None),
            ],
            temporaries: vec![planned("h", 4096, (1, 2), Some(0))],
            live_bytes: vec![8320, 12416, 12416],
            temporary_pool_bytes: 4096,
        };
        let bandwidths = vec![Bandwidth::new(4096.0, 50e9), Bandwidth::new(1048576.0, 25e9)];
        let profile = Profile {
            routine: "step".into(),
            device: "multicore:0".into(),
            threads: 2,
            run_time: Some(TimeSummary { count: 4, median_us: 4.1, total_us: 18.0 }),
            calls,
            memory,
            roofline: None,
            notes: vec![],
        };
        let profile = profile.with_roofline(Some(Roofline::new(100e9, "f32 matmul", bandwidths)));
        let shares: Vec<_> =
            profile.calls.iter().map(|call| call.roofline_share.map(|share| share.limit)).collect();
        assert_eq!(shares, [Some(Limit::Memory), Some(Limit::Arithmetic), Some(Limit::Memory)]);
        profile
    }
}
