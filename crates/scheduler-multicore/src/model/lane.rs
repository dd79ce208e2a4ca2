//! Lanes with workers, as the scheduler opens them: events, helping, failing, ending.

use std::time::Duration;

use device_runtime::After;
use loom::thread;

use super::{Steps, explore};
use crate::{
    backlog::Backlog,
    crew::Crew,
    event::EventState,
    lane::{Lane, LaneState},
    multicore::Worker,
    queue::Queue,
    raw::Work,
    sync::Arc,
    task::Task,
};

fn lane() -> Arc<Worker> {
    lane_with(&Arc::new(Crew::new(1)))
}

fn lane_with(crew: &Arc<Crew>) -> Arc<Worker> {
    let backlog = Backlog::new(Queue::new(4, Duration::ZERO), Arc::clone(crew));
    Arc::new(Worker::start(LaneState::new("lane", Some(backlog))).unwrap())
}

fn run(lane: &Worker, body: impl Fn() + Send + Sync + 'static) {
    lane.submit(Task::work(Work::closure(body))).unwrap();
}

/// Hands a step over.
fn step(lane: &Worker, steps: &Steps, number: usize) {
    let steps = steps.clone();
    run(lane, move || steps.take(number));
}

fn record(lane: &Worker) -> Arc<EventState> {
    let event = lane.state().event();
    lane.submit(Task::signal(Arc::clone(&event))).unwrap();
    event
}

#[test]
fn whoever_waits_sees_what_was_done_before_the_event() {
    explore(3, || {
        let (lane, steps) = (lane(), Steps::default());
        step(&lane, &steps, 0);
        let event = record(&lane);
        let (shared, seen) = (Arc::clone(&event), steps.clone());
        let other = thread::spawn(move || {
            assert_eq!(shared.wait(), Ok(()));
            assert_eq!(seen.taken(), 1);
        });
        assert_eq!(event.wait(), Ok(()));
        assert_eq!(steps.taken(), 1);
        other.join().unwrap();
        lane.close();
    });
}

#[test]
fn whoever_sees_an_event_done_sees_what_was_done_before() {
    explore(3, || {
        let (lane, steps) = (lane(), Steps::default());
        step(&lane, &steps, 0);
        let event = record(&lane);
        if event.poll().is_some() {
            assert_eq!(steps.taken(), 1);
        }
        lane.close();
    });
}

#[test]
fn a_caller_helps_up_to_its_event_and_the_worker_does_the_rest() {
    explore(3, || {
        let (lane, steps) = (lane(), Steps::default());
        step(&lane, &steps, 0);
        let first = record(&lane);
        step(&lane, &steps, 1);
        let second = record(&lane);
        assert_eq!(first.sync(), Ok(Ok(())));
        assert!(steps.taken() >= 1);
        // Not by helping: only the worker is left to do it.
        assert_eq!(second.wait(), Ok(()));
        assert_eq!(steps.taken(), 2);
        lane.close();
    });
}

#[test]
fn two_callers_help_one_at_a_time() {
    explore(2, || {
        let (lane, steps) = (lane(), Steps::default());
        step(&lane, &steps, 0);
        let first = record(&lane);
        step(&lane, &steps, 1);
        let second = record(&lane);
        let other = thread::spawn(move || assert_eq!(first.sync(), Ok(Ok(()))));
        assert_eq!(second.sync(), Ok(Ok(())));
        assert_eq!(steps.taken(), 2);
        other.join().unwrap();
        lane.close();
    });
}

#[test]
fn closing_waits_for_the_worker_and_for_whoever_helps() {
    explore(3, || {
        let (lane, steps) = (lane(), Steps::default());
        step(&lane, &steps, 0);
        let event = record(&lane);
        let helper = thread::spawn(move || assert_eq!(event.sync(), Ok(Ok(()))));
        lane.close();
        assert_eq!(steps.taken(), 1);
        helper.join().unwrap();
    });
}

#[test]
fn whoever_runs_tasks_counts_as_busy_meanwhile() {
    explore(3, || {
        let crew = Arc::new(Crew::new(2));
        let (lane, seen) = (lane_with(&crew), Arc::clone(&crew));
        // The worker and a helper count both only while one hands the role to the other.
        run(&lane, move || assert!((1..=2).contains(&seen.busy())));
        assert_eq!(record(&lane).sync(), Ok(Ok(())));
        lane.close();
        assert_eq!(crew.busy(), 0);
    });
}

#[test]
fn a_lane_waits_for_another_lane() {
    explore(2, || {
        let (first, second, steps) = (lane(), lane(), Steps::default());
        step(&first, &steps, 0);
        let event = record(&first);
        second.submit(Task::wait(event, After::Data)).unwrap();
        step(&second, &steps, 1);
        assert_eq!(record(&second).sync(), Ok(Ok(())));
        assert_eq!(steps.taken(), 2);
        first.close();
        second.close();
    });
}

#[test]
fn failures_reach_every_later_event_and_are_forgiven() {
    explore(2, || {
        let lane = lane();
        run(&lane, || std::panic::resume_unwind(Box::new("no luck")));
        let event = record(&lane);
        let failed = |event: &EventState| event.sync().unwrap().unwrap_err().message() == "no luck";
        assert!(failed(&event));
        assert!(failed(&record(&lane)), "later events too");
        lane.state().forgive();
        assert_eq!(record(&lane).sync(), Ok(Ok(())));
        lane.close();
    });
}
