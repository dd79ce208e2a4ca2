//! Queues with workers, as the scheduler opens them: events, callers that run tasks, failures, closing.

use std::time::Duration;

use device_runtime::WaitKind;
use loom::thread;

use super::{StepCounter, explore};
use crate::{
    bounded_queue::BoundedQueue, event::EventState, multicore::MulticoreQueue, pending_tasks::PendingTasks,
    queue_state::QueueState, raw::MemoryTask, scheduler::StreamQueue, sync::Arc, task::QueuedTask,
    thread_pool::ThreadPool,
};

fn queue() -> Arc<MulticoreQueue> {
    queue_with(&Arc::new(ThreadPool::new(1)))
}

fn queue_with(pool: &Arc<ThreadPool>) -> Arc<MulticoreQueue> {
    let pending = PendingTasks::new(BoundedQueue::new(4, Duration::ZERO), Arc::clone(pool));
    Arc::new(MulticoreQueue::start(QueueState::new("stream", Some(pending))).unwrap())
}

fn run(queue: &MulticoreQueue, body: impl Fn() + Send + Sync + 'static) {
    queue.submit(QueuedTask::memory(MemoryTask::closure(body))).unwrap();
}

/// Submits a task that takes step `number`.
fn step(queue: &MulticoreQueue, steps: &StepCounter, number: usize) {
    let steps = steps.clone();
    run(queue, move || steps.take(number));
}

fn record(queue: &MulticoreQueue) -> Arc<EventState> {
    let event = queue.state().event();
    queue.submit(QueuedTask::signal(Arc::clone(&event))).unwrap();
    event
}

#[test]
fn waiters_see_what_was_done_before_the_event() {
    explore(3, || {
        let (queue, steps) = (queue(), StepCounter::default());
        step(&queue, &steps, 0);
        let event = record(&queue);
        let (shared, seen) = (Arc::clone(&event), steps.clone());
        let other = thread::spawn(move || {
            assert_eq!(shared.wait(), Ok(()));
            assert_eq!(seen.taken(), 1);
        });
        assert_eq!(event.wait(), Ok(()));
        assert_eq!(steps.taken(), 1);
        other.join().unwrap();
        queue.close();
    });
}

#[test]
fn waiters_see_the_task_that_has_the_event() {
    explore(3, || {
        let (queue, steps) = (queue(), StepCounter::default());
        let (event, own) = (queue.state().event(), steps.clone());
        let task = QueuedTask::memory(MemoryTask::closure(move || own.take(0)));
        queue.enqueue(task.then_signal(Arc::clone(&event))).unwrap();
        let (shared, seen) = (Arc::clone(&event), steps.clone());
        let other = thread::spawn(move || {
            assert_eq!(shared.wait(), Ok(()));
            assert_eq!(seen.taken(), 1);
        });
        assert_eq!(event.sync(), Ok(Ok(())));
        assert_eq!(steps.taken(), 1);
        other.join().unwrap();
        queue.close();
    });
}

#[test]
fn polling_an_event_shows_what_was_done_before() {
    explore(3, || {
        let (queue, steps) = (queue(), StepCounter::default());
        step(&queue, &steps, 0);
        let event = record(&queue);
        if event.poll().is_some() {
            assert_eq!(steps.taken(), 1);
        }
        queue.close();
    });
}

#[test]
fn a_caller_runs_tasks_up_to_its_event_and_the_worker_runs_the_rest() {
    explore(3, || {
        let (queue, steps) = (queue(), StepCounter::default());
        step(&queue, &steps, 0);
        let first = record(&queue);
        step(&queue, &steps, 1);
        let second = record(&queue);
        assert_eq!(first.sync(), Ok(Ok(())));
        assert!(steps.taken() >= 1);
        // `wait` runs no tasks itself, so the worker must.
        assert_eq!(second.wait(), Ok(()));
        assert_eq!(steps.taken(), 2);
        queue.close();
    });
}

#[test]
fn two_callers_run_tasks_one_at_a_time() {
    explore(2, || {
        let (queue, steps) = (queue(), StepCounter::default());
        step(&queue, &steps, 0);
        let first = record(&queue);
        step(&queue, &steps, 1);
        let second = record(&queue);
        let other = thread::spawn(move || assert_eq!(first.sync(), Ok(Ok(()))));
        assert_eq!(second.sync(), Ok(Ok(())));
        assert_eq!(steps.taken(), 2);
        other.join().unwrap();
        queue.close();
    });
}

#[test]
fn closing_waits_for_the_worker_and_for_callers_that_run_tasks() {
    explore(3, || {
        let (queue, steps) = (queue(), StepCounter::default());
        step(&queue, &steps, 0);
        let event = record(&queue);
        let caller = thread::spawn(move || assert_eq!(event.sync(), Ok(Ok(()))));
        queue.close();
        assert_eq!(steps.taken(), 1);
        caller.join().unwrap();
    });
}

#[test]
fn a_thread_that_runs_tasks_counts_as_busy() {
    explore(3, || {
        let pool = Arc::new(ThreadPool::new(2));
        let (queue, seen) = (queue_with(&pool), Arc::clone(&pool));
        // Both the worker and a caller count only while one of them passes the consumer's role to the other.
        run(&queue, move || assert!((1..=2).contains(&seen.busy())));
        assert_eq!(record(&queue).sync(), Ok(Ok(())));
        queue.close();
        assert_eq!(pool.busy(), 0);
    });
}

#[test]
fn a_queue_waits_for_another_queue() {
    explore(2, || {
        let (pool, steps) = (Arc::new(ThreadPool::new(1)), StepCounter::default());
        let (first, second) = (queue_with(&pool), queue_with(&pool));
        step(&first, &steps, 0);
        let event = record(&first);
        second.submit(QueuedTask::wait(event, WaitKind::Data)).unwrap();
        step(&second, &steps, 1);
        assert_eq!(record(&second).sync(), Ok(Ok(())));
        assert_eq!(steps.taken(), 2);
        first.close();
        second.close();
        assert_eq!(pool.busy(), 0, "the thread that waited counts as often as it did not");
    });
}

#[test]
fn failures_reach_every_later_event_until_they_are_cleared() {
    explore(2, || {
        let queue = queue();
        run(&queue, || std::panic::resume_unwind(Box::new("no luck")));
        let event = record(&queue);
        let failed = |event: &EventState| event.sync().unwrap().unwrap_err().message() == "no luck";
        assert!(failed(&event));
        assert!(failed(&record(&queue)), "later events too");
        queue.state().clear_failure();
        assert_eq!(record(&queue).sync(), Ok(Ok(())));
        queue.close();
    });
}
