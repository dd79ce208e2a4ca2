//! The queue alone: order, sleep, room, roles, closing.

use std::{collections::VecDeque, time::Duration};

use loom::thread;

use super::{Steps, explore};
use crate::{
    queue::{Offer, Pushed, Queue, Refused},
    sync::Arc,
};

fn queue(capacity: usize) -> Arc<Queue<usize>> {
    Arc::new(Queue::new(capacity, Duration::ZERO))
}

fn push(queue: &Queue<usize>, task: usize) {
    assert!(matches!(queue.push(task, Offer::Wait), Ok(Pushed::Queued)));
}

/// The life of a worker that ends after `tasks` tasks.
fn take(queue: &Queue<usize>, tasks: usize, mut run: impl FnMut(usize)) {
    let (mut batch, mut taken) = (VecDeque::new(), 0);
    while taken < tasks {
        assert!(queue.take(&mut batch));
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
        assert_eq!(queue.push(4, Offer::Leave).unwrap_err(), Refused::Full);
    });
}

#[test]
fn a_helper_makes_room_as_well() {
    explore(3, || {
        let queue = queue(1);
        push(&queue, 0);
        let producer = Arc::clone(&queue);
        let thread = thread::spawn(move || push(&producer, 1));
        let turn = queue.help().unwrap();
        assert_eq!(turn.next(), Some(0));
        thread.join().unwrap();
        assert_eq!((turn.next(), turn.next()), (Some(1), None));
        drop(turn);
        assert!(queue.is_idle());
    });
}

#[test]
fn closing_leaves_nothing_behind_and_lets_everybody_go() {
    explore(3, || {
        let queue = queue(1);
        let producer = Arc::clone(&queue);
        let thread = thread::spawn(move || {
            (0..3)
                .take_while(|&task| match producer.push(task, Offer::Wait) {
                    Ok(_) => true,
                    Err(refused) => {
                        assert_eq!(refused, Refused::Closed);
                        false
                    }
                })
                .count()
        });
        let closer = Arc::clone(&queue);
        let closer = thread::spawn(move || closer.close());
        let (mut batch, mut taken) = (VecDeque::new(), Vec::new());
        while queue.take(&mut batch) {
            taken.extend(batch.drain(..));
        }
        assert_eq!(taken.len(), thread.join().unwrap(), "what was accepted was run");
        assert!(taken.iter().copied().eq(0..taken.len()));
        closer.join().unwrap();
    });
}

/// What the helper leaves, the worker does, though it was asleep and nobody pushes any more.
#[test]
fn what_a_helper_leaves_wakes_the_worker() {
    explore(3, || {
        let (queue, steps) = (queue(4), Steps::default());
        let (worker, seen) = (Arc::clone(&queue), steps.clone());
        let thread = thread::spawn(move || {
            let mut batch = VecDeque::new();
            while seen.taken() < 3 && worker.take(&mut batch) {
                batch.drain(..).for_each(|task| seen.take(task));
            }
        });
        (0..2).for_each(|task| push(&queue, task));
        if let Some(turn) = queue.help() {
            // Pushed while the worker cannot run it, so it is not woken for it yet.
            push(&queue, 2);
            if let Some(task) = turn.next() {
                steps.take(task);
            }
        } else {
            push(&queue, 2);
        }
        thread.join().unwrap();
        assert_eq!(steps.taken(), 3);
    });
}

/// A producer that runs its task itself has the role as any helper has: one at a time, in order, and the worker gets the rest.
#[test]
fn a_producer_that_runs_its_task_is_a_consumer_like_any_other() {
    for offer in [Offer::RunIfNext, Offer::RunInsteadOfWaking] {
        explore(3, move || {
            let (queue, steps) = (queue(4), Steps::default());
            let (worker, seen) = (Arc::clone(&queue), steps.clone());
            let thread = thread::spawn(move || {
                let mut batch = VecDeque::new();
                while seen.taken() < 4 && worker.take(&mut batch) {
                    batch.drain(..).for_each(|task| seen.take(task));
                }
            });
            push(&queue, 0);
            for task in 1..3 {
                if let Pushed::Yours(task, _turn) = queue.push(task, offer).unwrap() {
                    steps.take(task);
                }
            }
            push(&queue, 3);
            thread.join().unwrap();
            assert_eq!(steps.taken(), 4);
        });
    }
}

/// The worker that a closed queue lets go is gone only after the helper.
#[test]
fn a_closed_queue_ends_after_its_helper() {
    explore(3, || {
        let (queue, steps) = (queue(4), Steps::default());
        (0..2).for_each(|task| push(&queue, task));
        let (helper, seen) = (Arc::clone(&queue), steps.clone());
        let thread = thread::spawn(move || {
            if let Some(turn) = helper.help() {
                while let Some(task) = turn.next() {
                    seen.take(task);
                }
            }
        });
        queue.close();
        let mut batch = VecDeque::new();
        while queue.take(&mut batch) {
            batch.drain(..).for_each(|task| steps.take(task));
        }
        assert_eq!(steps.taken(), 2, "the helper's steps as well");
        thread.join().unwrap();
    });
}
