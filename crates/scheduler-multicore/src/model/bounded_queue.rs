//! The bounded queue alone: order, sleep, room, consumers, closing.

use std::{collections::VecDeque, time::Duration};

use loom::thread;

use super::{StepCounter, explore};
use crate::{
    bounded_queue::{BoundedQueue, PushError, PushMode, Pushed, Taken},
    sync::Arc,
};

fn queue(capacity: usize) -> Arc<BoundedQueue<usize>> {
    Arc::new(BoundedQueue::new(capacity, Duration::ZERO))
}

fn push<S>(queue: &BoundedQueue<usize, S>, task: usize) {
    assert!(matches!(queue.push(task, PushMode::Blocking), Ok(Pushed::Queued)));
}

/// The main loop of a worker that ends after `tasks` tasks.
fn take(queue: &BoundedQueue<usize>, tasks: usize, mut run: impl FnMut(usize)) {
    let (mut batch, mut taken) = (VecDeque::new(), 0);
    while taken < tasks {
        assert!(queue.take(&mut batch).is_some());
        taken += batch.len();
        batch.drain(..).for_each(&mut run);
    }
}

#[test]
fn tasks_of_one_producer_keep_their_order_while_the_worker_sleeps_and_wakes() {
    explore(3, || {
        let queue = queue(4);
        let producer = Arc::clone(&queue);
        let thread = thread::spawn(move || (0..3).for_each(|task| push(&producer, task)));
        let mut order = Vec::new();
        take(&queue, 3, |task| order.push(task));
        assert_eq!(order, [0, 1, 2]);
        thread.join().unwrap();
    });
}

#[test]
fn tasks_of_two_producers_are_all_taken_once() {
    explore(2, || {
        let queue = queue(4);
        let threads = [10, 20].map(|first| {
            let producer = Arc::clone(&queue);
            thread::spawn(move || (first..first + 2).for_each(|task| push(&producer, task)))
        });
        let mut order = Vec::new();
        take(&queue, 4, |task| order.push(task));
        let of =
            |first: usize| order.iter().copied().filter(|task| task / 10 * 10 == first).collect::<Vec<_>>();
        assert_eq!((of(10), of(20)), (vec![10, 11], vec![20, 21]));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_full_queue_holds_producers_until_there_is_room() {
    explore(2, || {
        let queue = queue(1);
        let threads = [1, 2].map(|tasks| {
            let producer = Arc::clone(&queue);
            thread::spawn(move || (0..tasks).for_each(|task| push(&producer, task)))
        });
        take(&queue, 3, |_| ());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        push(&queue, 3);
        assert_eq!(queue.push(4, PushMode::NonBlocking).unwrap_err(), PushError::Full);
    });
}

#[test]
fn a_caller_that_runs_tasks_makes_room_as_well() {
    explore(3, || {
        let queue = queue(1);
        push(&queue, 0);
        let producer = Arc::clone(&queue);
        let thread = thread::spawn(move || push(&producer, 1));
        let role = queue.try_consume().unwrap();
        assert_eq!(role.next(), Some(0));
        thread.join().unwrap();
        assert_eq!((role.next(), role.next()), (Some(1), None));
        drop(role);
        assert!(queue.is_idle());
    });
}

#[test]
fn closing_leaves_no_task_behind_and_ends_every_wait() {
    explore(3, || {
        let queue = queue(1);
        let producer = Arc::clone(&queue);
        let thread = thread::spawn(move || {
            (0..3)
                .take_while(|&task| match producer.push(task, PushMode::Blocking) {
                    Ok(_) => true,
                    Err(error) => {
                        assert_eq!(error, PushError::Closed);
                        false
                    }
                })
                .count()
        });
        let closer = Arc::clone(&queue);
        let closer = thread::spawn(move || closer.close());
        let (mut batch, mut taken) = (VecDeque::new(), Vec::new());
        while queue.take(&mut batch).is_some() {
            taken.extend(batch.drain(..));
        }
        assert_eq!(taken.len(), thread.join().unwrap(), "every accepted task has run");
        assert!(taken.iter().copied().eq(0..taken.len()));
        closer.join().unwrap();
    });
}

/// The worker runs the tasks that the caller leaves, although it slept and no more tasks are pushed.
#[test]
fn tasks_that_a_caller_leaves_wake_the_worker() {
    explore(3, || {
        let (queue, steps) = (queue(4), StepCounter::default());
        let (worker, seen) = (Arc::clone(&queue), steps.clone());
        let thread = thread::spawn(move || {
            let mut batch = VecDeque::new();
            while seen.taken() < 3 && worker.take(&mut batch).is_some() {
                batch.drain(..).for_each(|task| seen.take(task));
            }
        });
        (0..2).for_each(|task| push(&queue, task));
        if let Some(role) = queue.try_consume() {
            // The worker is not woken for this task yet, since it could not run it.
            push(&queue, 2);
            if let Some(task) = role.next() {
                steps.take(task);
            }
        } else {
            push(&queue, 2);
        }
        thread.join().unwrap();
        assert_eq!(steps.taken(), 3);
    });
}

/// A producer that runs its task is the only consumer meanwhile, keeps the order, and leaves the rest to the
/// worker.
#[test]
fn a_producer_that_runs_its_task_is_a_consumer_like_any_other() {
    for mode in [PushMode::RunIfNext, PushMode::RunIfWorkerSleeps] {
        explore(3, move || {
            let (queue, steps) = (queue(4), StepCounter::default());
            let (worker, seen) = (Arc::clone(&queue), steps.clone());
            let thread = thread::spawn(move || {
                let mut batch = VecDeque::new();
                while seen.taken() < 4 && worker.take(&mut batch).is_some() {
                    batch.drain(..).for_each(|task| seen.take(task));
                }
            });
            push(&queue, 0);
            for task in 1..3 {
                if let Pushed::RunNow(task, _role) = queue.push(task, mode).unwrap() {
                    steps.take(task);
                }
            }
            push(&queue, 3);
            thread.join().unwrap();
            assert_eq!(steps.taken(), 4);
        });
    }
}

/// The same for a producer that asks first, and enqueues the task only if it may not run it.
#[test]
fn a_producer_that_may_run_its_task_is_a_consumer_like_any_other() {
    for mode in [PushMode::RunIfNext, PushMode::RunIfWorkerSleeps] {
        explore(3, move || {
            let (queue, steps) = (queue(4), StepCounter::default());
            let (worker, seen) = (Arc::clone(&queue), steps.clone());
            let thread = thread::spawn(move || {
                let mut batch = VecDeque::new();
                while seen.taken() < 4 && worker.take(&mut batch).is_some() {
                    batch.drain(..).for_each(|task| seen.take(task));
                }
            });
            push(&queue, 0);
            for task in 1..3 {
                match queue.try_run(mode) {
                    Some(_role) => steps.take(task),
                    None => push(&queue, task),
                }
            }
            push(&queue, 3);
            thread.join().unwrap();
            assert_eq!(steps.taken(), 4);
        });
    }
}

/// The worker of a closed queue ends only after a caller that is running tasks has finished them.
#[test]
fn a_closed_queue_ends_after_a_caller_that_runs_tasks() {
    explore(3, || {
        let (queue, steps) = (queue(4), StepCounter::default());
        (0..2).for_each(|task| push(&queue, task));
        let (caller, seen) = (Arc::clone(&queue), steps.clone());
        let thread = thread::spawn(move || {
            if let Some(role) = caller.try_consume() {
                while let Some(task) = role.next() {
                    seen.take(task);
                }
            }
        });
        queue.close();
        let mut batch = VecDeque::new();
        while queue.take(&mut batch).is_some() {
            batch.drain(..).for_each(|task| steps.take(task));
        }
        assert_eq!(steps.taken(), 2, "the caller's steps as well");
        thread.join().unwrap();
    });
}

/// The worker may execute the share, sleep again, or never see it: the task that the caller leaves is run.
#[test]
fn a_worker_that_was_offered_a_share_runs_the_tasks_that_a_caller_leaves() {
    explore(3, || {
        let (queue, steps) = (Arc::new(BoundedQueue::new(4, Duration::ZERO)), StepCounter::default());
        let (worker, seen) = (Arc::clone(&queue), steps.clone());
        let thread = thread::spawn(move || {
            let mut batch = VecDeque::new();
            while seen.taken() < 1
                && let Some(taken) = worker.take(&mut batch)
            {
                match taken {
                    Taken::Share("share") => worker.release_worker(),
                    Taken::Share(_) => unreachable!("nothing else was offered"),
                    Taken::Tasks => batch.drain(..).for_each(|task| seen.take(task)),
                }
            }
        });
        let role = queue.try_run(PushMode::RunIfNext).unwrap();
        queue.offer("share").unwrap();
        assert!(matches!(queue.push(0, PushMode::Blocking), Ok(Pushed::Queued)));
        queue.withdraw(|_| true);
        drop(role);
        thread.join().unwrap();
        assert_eq!(steps.taken(), 1);
    });
}

#[test]
fn a_worker_gets_one_share_at_a_time_and_only_of_a_caller() {
    explore(3, || {
        let queue: BoundedQueue<usize, &str> = BoundedQueue::new(4, Duration::ZERO);
        assert_eq!(queue.offer("early"), Err("early"), "nobody is the consumer");
        let role = queue.try_run(PushMode::RunIfNext).unwrap();
        queue.offer("first").unwrap();
        assert_eq!(queue.offer("second"), Err("second"));
        assert_eq!(queue.withdraw(|share| *share == "second"), None);
        let mut batch = VecDeque::new();
        assert!(matches!(queue.take(&mut batch), Some(Taken::Share("first"))));
        assert_eq!(queue.offer("second"), Err("second"), "the worker executes the first");
        assert_eq!(queue.withdraw(|_| true), None);
        queue.release_worker();
        queue.offer("second").unwrap();
        assert_eq!(queue.withdraw(|_| true), Some("second"));
        push(&queue, 0);
        drop(role);
        assert!(matches!(queue.take(&mut batch), Some(Taken::Tasks)));
        assert_eq!(queue.offer("late"), Err("late"), "the worker is the consumer");
    });
}
