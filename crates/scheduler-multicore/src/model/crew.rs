//! A kernel in parts: its owner and helpers that come early, late or never.

use loom::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use super::explore;
use crate::{crew::Job, sync::Arc};

/// Runs a job of `extent` iterations in parts of one by its owner and `helpers` others.
fn split(extent: usize, helpers: usize) {
    let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..extent).map(|_| AtomicUsize::new(0)).collect());
    let counted = Arc::clone(&runs);
    let run = move |begin, end| {
        for i in begin..end {
            let runs = &counted[i as usize];
            runs.store(runs.load(Relaxed) + 1, Relaxed);
        }
    };
    let job = Arc::new(Job::new(run, extent as u64, extent as u64));
    let threads: Vec<_> = (0..helpers)
        .map(|_| {
            let job = Arc::clone(&job);
            thread::spawn(move || job.help())
        })
        .collect();
    job.finish();
    assert!(runs.iter().all(|runs| runs.load(Relaxed) == 1), "the owner sees every part done once");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn the_owner_sees_what_a_helper_did() {
    explore(4, || split(3, 1));
}

#[test]
fn two_helpers_and_the_owner_share_the_parts() {
    explore(2, || split(3, 2));
}

#[test]
fn a_panic_of_a_part_is_the_owners() {
    explore(3, || {
        let run = |begin, _| {
            if begin == 1 {
                std::panic::resume_unwind(Box::new("no luck"));
            }
        };
        let job = Arc::new(Job::new(run, 2, 2));
        let helper = Arc::clone(&job);
        let thread = thread::spawn(move || helper.help());
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.finish()));
        assert_eq!(*result.unwrap_err().downcast::<String>().unwrap(), "no luck");
        thread.join().unwrap();
    });
}
