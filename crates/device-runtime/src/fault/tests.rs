//! Faults on a device that runs nothing.

use std::time::Duration;

use codegen_core::{Cost, KernelAbi, Launch, Param};

use super::*;
use crate::{checked::BoundSequence, direct::DirectDriver, driver::Location, null::NullDevice};

fn faulty(plan: FaultPlan) -> DirectDriver<FaultDevice> {
    let device = DirectDriver::new(Arc::new(FaultDevice::new(Arc::new(NullDevice::new()), plan)));
    device.set_active(false);
    device.alloc_pool(POOL, 64).unwrap();
    device.set_active(true);
    device
}

const POOL: PoolId = PoolId(1);

fn zero(device: &DirectDriver<FaultDevice>, stream: &StreamHandle) -> Result<()> {
    // SAFETY: the device runs nothing.
    unsafe { device.memset_zero(stream, Location { pool: POOL, offset: 0 }, 64) }
}

/// A sequence of kernels, each of which takes a value.
fn sequence(device: &DirectDriver<FaultDevice>, names: &[&str]) -> BoundSequence {
    let kernels = names.iter().map(|name| KernelAbi {
        name: (*name).to_owned(),
        params: vec![Param::StaticIndex { range: 8 }],
        launch: Launch { extent: 1, grain: 1, threads: 1, end: None },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    });
    let artifact = Artifact::other(Arc::new(()), kernels.collect());
    let module = device.load(&artifact).unwrap();
    let bind = |at| device.bind(&module.kernel(at).unwrap(), &[]).unwrap();
    let bound: Vec<_> = (0..names.len()).map(bind).collect();
    device.sequence(&bound).unwrap().unwrap()
}

#[test]
fn a_sequence_fails_at_one_of_its_kernels() {
    let names = ["first", "second", "third", "fourth"];
    let mut failed = Vec::new();
    for seed in 0..20 {
        let device = faulty(FaultPlan::new(seed).task_failures(1.0));
        let (stream, sequence) = (device.new_stream("a").unwrap(), sequence(&device, &names));
        // SAFETY: the device runs nothing.
        let launched = unsafe { device.launch_sequence(&stream, &sequence, &[1, 2, 3, 4]) };
        assert_eq!(launched, Ok(true), "it was submitted, and fails later");
        let failure = device.failures().remove(0);
        assert_eq!(device.sync(&device.record(&stream).unwrap()), Err(DriverError::Failed(failure.clone())));
        failed.push(failure.task().to_owned());
    }
    failed.sort_unstable();
    failed.dedup();
    assert_eq!(failed, ["first", "fourth", "third"], "behind none, all, and half of them");
}

/// The results of some hundred calls, as text.
fn transcript(plan: FaultPlan) -> (Vec<String>, FaultCounts) {
    let device = faulty(plan);
    let streams = ["a", "b"].map(|name| device.new_stream(name).unwrap());
    let mut answers = Vec::new();
    for step in 0..200 {
        let Ok(event) = device.record(&streams[step % 2]) else { break };
        answers.push(format!("{:?}", device.is_done(&event)));
        answers.push(format!("{:?}", zero(&device, &streams[step % 2])));
        answers.push(format!("{:?}", device.alloc_pool(PoolId(2), 8)));
        if step % 20 == 0 {
            let _ = device.reset_stream(&streams[step % 2]);
        }
    }
    (answers, device.counts())
}

fn everything(seed: u64) -> FaultPlan {
    let plan = FaultPlan::new(seed).out_of_memory(0.2).task_failures(0.1).late_completions(0.3);
    plan.slow_copies(0.1).delay(Duration::from_micros(1)).device_lost(0.002)
}

#[test]
fn a_plan_without_rates_injects_nothing() {
    let (answers, counts) = transcript(FaultPlan::new(7));
    assert_eq!(counts, FaultCounts::default());
    assert!(answers.iter().all(|answer| answer == "Ok(())" || answer == "Ok(true)"));
}

#[test]
fn faults_are_functions_of_the_seed() {
    assert_eq!(transcript(everything(1)), transcript(everything(1)));
    assert_ne!(transcript(everything(1)).0, transcript(everything(2)).0);
    let seen = (0..10).map(|seed| transcript(everything(seed)).1);
    let all = |count: fn(&FaultCounts) -> u64| seen.clone().map(|counts| count(&counts)).sum::<u64>();
    assert!(all(|c| c.out_of_memory) > 0 && all(|c| c.slow_copies) > 0 && all(|c| c.late_completions) > 0);
    assert!(all(|c| c.task_failures) > 0 && all(|c| c.device_lost) > 0 && all(|c| c.rejected_peers) == 0);
}

#[test]
fn a_failed_stream_stays_failed_until_it_is_reset() {
    let device = faulty(FaultPlan::new(1).task_failures(1.0));
    let [failed, reader, writer] =
        ["failed", "reader", "writer"].map(|name| device.new_stream(name).unwrap());
    zero(&device, &failed).unwrap();
    let failure = device.failures().remove(0);
    let expected = DriverError::Failed(failure.clone());
    assert_eq!((failure.stream(), failure.task()), ("failed", "zero"));
    device.set_active(false);
    let event = device.record(&failed).unwrap();
    assert_eq!(device.sync(&event), Err(expected.clone()));
    assert!((0..4).any(|_| zero(&device, &failed) == Err(expected.clone())), "noticed soon");

    device.wait(&reader, &event, WaitKind::Data).unwrap();
    device.wait(&writer, &event, WaitKind::Order).unwrap();
    assert_eq!(device.sync(&device.record(&reader).unwrap()), Err(expected.clone()));
    assert_eq!(device.sync(&device.record(&writer).unwrap()), Ok(()));

    device.reset_stream(&failed).unwrap();
    zero(&device, &failed).unwrap();
    assert_eq!(device.sync(&device.record(&failed).unwrap()), Ok(()));
    assert_eq!(device.is_done(&event), Err(expected), "what failed has failed");
    assert_eq!(device.counts().task_failures, 1);
}

#[test]
fn late_events_are_done_in_the_end_and_in_the_order_of_their_stream() {
    let device = faulty(FaultPlan::new(1).late_completions(1.0));
    let stream = device.new_stream("a").unwrap();
    let [first, second, third] = [(); 3].map(|()| device.record(&stream).unwrap());
    assert_eq!(device.is_done(&first), Ok(false));
    assert_eq!(device.is_done(&second), Ok(false));
    device.sync(&second).unwrap();
    assert_eq!((device.is_done(&first), device.is_done(&second)), (Ok(true), Ok(true)));
    let questions = (0..).take_while(|_| device.is_done(&third) == Ok(false)).count();
    assert!((1..=MAX_EXTRA_POLLS as usize).contains(&questions), "{questions}");
    assert_eq!(device.counts().late_completions, 3);
}

#[test]
fn a_lost_device_gives_nothing_but_what_was_seen_before() {
    let device = faulty(FaultPlan::new(1));
    let stream = device.new_stream("a").unwrap();
    let [seen, pending] = [(); 2].map(|()| device.record(&stream).unwrap());
    device.sync(&seen).unwrap();
    device.lose();
    device.lose();
    assert_eq!(device.counts(), FaultCounts { device_lost: 1, ..FaultCounts::default() });
    let lost = device.check_alive().unwrap_err();
    assert!(matches!(&lost, DriverError::Lost { driver, .. } if driver == "null"), "{lost}");
    assert_eq!(device.is_done(&seen), Ok(true));
    assert_eq!((device.is_done(&pending), device.sync(&pending)), (Err(lost.clone()), Err(lost.clone())));
    assert_eq!(zero(&device, &stream), Err(lost.clone()));
    assert_eq!(device.alloc_pool(PoolId(3), 1), Err(lost.clone()));
    assert_eq!(device.new_stream("b").unwrap_err(), lost);
    assert_eq!(device.reset_stream(&stream), Err(lost.clone()));
    assert_eq!(device.record(&stream).unwrap_err(), lost);

    // A stream of another device that waits for it gets the error.
    let healthy = faulty(FaultPlan::new(1));
    let reader = healthy.new_stream("reader").unwrap();
    healthy.wait(&reader, &pending, WaitKind::Data).unwrap();
    let told = healthy.sync(&healthy.record(&reader).unwrap()).unwrap_err();
    assert!(told.to_string().contains("is lost"), "{told}");
    device.free_pool(POOL);
    assert_eq!(device.used_memory(), 0);
}
