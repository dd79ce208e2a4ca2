//! A kernel in parts: its owner and helpers that come early, late or never, and what becomes of them afterwards.

use loom::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use super::explore;
use crate::{
    crew::{Crew, Parted},
    sync::Arc,
};

/// A kernel of parts of one iteration, each of which must have run as often as the kernel before it.
#[derive(Clone)]
struct Counted(Arc<Vec<AtomicUsize>>);

impl Counted {
    fn new(extent: usize) -> Counted {
        Counted(Arc::new((0..extent).map(|_| AtomicUsize::new(0)).collect()))
    }

    /// Splits a run of the kernel, before which each iteration ran `before` times.
    fn split(&self, crew: &Crew<Counted>, before: usize) {
        let _busy = crew.enter();
        crew.split(self, self.0.len() as u64, 1);
        let done = self.0.iter().all(|runs| runs.load(Relaxed) == before + 1);
        assert!(done, "the owner sees every part done once");
    }
}

impl Parted for Counted {
    /// Reading and writing are apart, so that a part that runs twice at once is noticed.
    fn run_part(&self, begin: u64, end: u64) {
        for at in begin..end {
            let runs = &self.0[at as usize];
            runs.store(runs.load(Relaxed) + 1, Relaxed);
        }
    }
}

#[test]
fn the_owner_sees_what_a_helper_did() {
    explore(3, || {
        let crew = Crew::new(2);
        Counted::new(3).split(&crew, 0);
        assert_eq!(crew.busy(), 0, "offers and guards are given back");
    });
}

#[test]
fn two_helpers_and_the_owner_share_the_parts() {
    explore(2, || Counted::new(3).split(&Crew::new(3), 0));
}

/// Another owner of the same helper, seat and job: one kernel's writes are seen by the next, whoever ran them.
#[test]
fn kernels_follow_one_another() {
    explore(2, || {
        let (crew, kernel) = (Crew::new(2), Counted::new(2));
        kernel.split(&crew, 0);
        kernel.split(&crew, 1);
    });
}

/// Owners that are not counted themselves, so that both may want the only helper.
#[test]
fn two_owners_at_a_time_have_jobs_of_their_own() {
    explore(1, || {
        let crew = Arc::new(Crew::new(2));
        crew.start_helpers();
        let split = |crew: &Crew<Counted>| {
            let kernel = Counted::new(2);
            crew.split(&kernel, 2, 1);
            assert!(
                kernel.0.iter().all(|runs| runs.load(Relaxed) == 1),
                "the owner sees every part done once"
            );
        };
        let other = Arc::clone(&crew);
        let thread = thread::spawn(move || split(&other));
        split(&crew);
        thread.join().unwrap();
        assert_eq!(crew.busy(), 0);
    });
}

/// Counts who runs at the same time as itself.
#[derive(Clone)]
struct Crowd {
    running: Arc<AtomicUsize>,
    limit: usize,
}

impl Parted for Crowd {
    fn run_part(&self, _: u64, _: u64) {
        assert!(self.running.fetch_add(1, Relaxed) < self.limit, "more threads run than there are");
        self.running.fetch_sub(1, Relaxed);
    }
}

#[test]
fn nobody_helps_while_the_workers_are_as_many_as_the_threads() {
    explore(2, || {
        let crew = Arc::new(Crew::new(2));
        let crowd = Crowd { running: Arc::new(AtomicUsize::new(0)), limit: 2 };
        let both = [crew.enter(), crew.enter()];
        let (other, work) = (Arc::clone(&crew), crowd.clone());
        let thread = thread::spawn(move || other.split(&work, 2, 1));
        crew.split(&crowd, 2, 1);
        thread.join().unwrap();
        drop(both);
        assert_eq!(crew.busy(), 0);
    });
}

#[derive(Clone)]
struct Unlucky;

impl Parted for Unlucky {
    fn run_part(&self, begin: u64, _: u64) {
        if begin == 1 {
            std::panic::resume_unwind(Box::new("no luck"));
        }
    }
}

#[test]
fn a_panic_of_a_part_is_the_owners() {
    explore(3, || {
        let crew = Crew::new(2);
        let _busy = crew.enter();
        let split = std::panic::AssertUnwindSafe(|| crew.split(&Unlucky, 2, 1));
        let result = std::panic::catch_unwind(split);
        assert_eq!(*result.unwrap_err().downcast::<String>().unwrap(), "no luck");
    });
}
