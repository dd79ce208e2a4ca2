//! Tests of the detector on explicit programs, the check of the runtime, and a check that omitted waits are
//! detected.

use std::sync::Arc;

use super::{
    device::{PeerAccess, RaceDevice},
    programs::Shape,
    world::World,
};
use crate::{
    direct::DirectDriver,
    driver::{Driver, EventHandle, Location, PoolId, StreamHandle, WaitKind},
    error::DriverError,
    hazard::Hazard::{self, *},
    order::{
        Scope::{self, *},
        without,
    },
};

const STRANGERS: PeerAccess = PeerAccess { events: false, memory: false };
const PROGRAMS: u64 = 150;

/// A seed whose world completes steps between queries.
const BRISK: u64 = 3;

/// Two devices whose streams are driven explicitly.
struct ByHand {
    world: World,
    devices: [DirectDriver<RaceDevice>; 2],
}

impl ByHand {
    fn new(peers: PeerAccess) -> ByHand {
        let world = World::new(BRISK);
        let devices =
            [0, 1].map(|number| DirectDriver::new(Arc::new(RaceDevice::new(&world, number, peers))));
        devices.iter().for_each(|device| device.alloc_pool(PoolId(1), 64).unwrap());
        ByHand { world, devices }
    }

    fn stream(&self, device: usize) -> StreamHandle {
        self.devices[device].new_stream("by hand").unwrap()
    }

    /// Writes some bytes of the first device's pool; returns an event recorded after the write.
    fn write(&self, stream: &StreamHandle, offset: usize, bytes: usize) -> EventHandle {
        let at = Location { pool: PoolId(1), offset };
        // SAFETY: the device runs nothing.
        #[allow(unsafe_code, reason = "a task of a device that runs nothing")]
        unsafe {
            self.devices[0].memset_zero(stream, at, bytes).unwrap();
        }
        self.devices[0].record(stream).unwrap()
    }

    fn races(&self) -> usize {
        self.world.read_on_host().len()
    }
}

#[test]
fn what_nothing_orders_is_a_race() {
    let hand = ByHand::new(STRANGERS);
    let [a, b] = [hand.stream(0), hand.stream(0)];
    hand.write(&a, 0, 32);
    hand.write(&a, 0, 32);
    hand.write(&b, 32, 32);
    assert_eq!(hand.races(), 0, "one stream, other bytes");
    hand.write(&b, 31, 1);
    assert_eq!(hand.races(), 1);
    let text = hand.world.read_on_host().remove(0);
    let expected = "pool 1 of device 0: `zero` on by hand of device 0 writes bytes 0..32, and `zero` on by hand of device 0 \
                    writes bytes 31..32, in any order";
    assert_eq!(text, expected);
}

#[test]
fn waits_of_streams_and_of_the_host_order() {
    let hand = ByHand::new(STRANGERS);
    let [a, b, c, d] = [(); 4].map(|()| hand.stream(0));
    let first = hand.write(&a, 0, 8);
    hand.devices[0].wait(&b, &first, WaitKind::Order).unwrap();
    let second = hand.write(&b, 0, 8);
    hand.devices[0].wait(&c, &second, WaitKind::Order).unwrap();
    let third = hand.write(&c, 0, 8);
    assert_eq!(hand.races(), 0, "what comes before an event comes before all that wait for it");
    while !hand.devices[0].is_done(&third).unwrap() {}
    assert_eq!(hand.devices[0].is_done(&first), Ok(true), "awaited events are done");
    hand.write(&d, 0, 8);
    assert_eq!(hand.races(), 0, "the host saw it done");
    hand.devices[0].wait(&a, &third, WaitKind::Order).unwrap();
    hand.write(&a, 0, 8);
    assert_eq!(hand.races(), 1, "but nobody waited for the last one");
}

#[test]
fn events_are_done_in_the_order_of_their_stream() {
    let mut late = 0;
    let hand = ByHand::new(STRANGERS);
    for _ in 0..50 {
        let stream = hand.stream(0);
        let [first, second] = [(); 2].map(|()| hand.write(&stream, 0, 0));
        late += usize::from(!hand.devices[0].is_done(&second).unwrap());
        if hand.devices[0].is_done(&second).unwrap() {
            assert_eq!(hand.devices[0].is_done(&first), Ok(true));
        }
        hand.devices[0].sync(&second).unwrap();
        assert_eq!(hand.devices[0].is_done(&first), Ok(true));
        assert!(hand.devices[0].is_idle(&stream));
    }
    assert!(late > 10, "{late}");
}

#[test]
fn devices_know_each_other_as_they_are_told() {
    for peers in [STRANGERS, PeerAccess { events: true, memory: true }] {
        let hand = ByHand::new(peers);
        let [a, b] = [hand.stream(0), hand.stream(1)];
        let event = hand.write(&a, 0, 8);
        let foreign = DriverError::ForeignHandle { what: "event" };
        let waited = hand.devices[1].wait(&b, &event, WaitKind::Data);
        assert_eq!(waited, if peers.events { Ok(()) } else { Err(foreign) });
        let reached =
            hand.devices[0].export(PoolId(1)).and_then(|pool| hand.devices[1].import(PoolId(2), &pool));
        assert_eq!(reached.is_ok(), peers.memory);
    }
}

/// The races of random programs, without faults or with them.
fn races(programs: u64, faults: bool) -> (Vec<String>, usize) {
    let mut scheduled = 0;
    for seed in 0..programs {
        let shape = Shape::random(seed, faults);
        let outcome = shape.run();
        if !outcome.races.is_empty() {
            let races = outcome.races.iter().map(|race| format!("{shape:?}: {race}"));
            return (races.collect(), scheduled);
        }
        scheduled += outcome.scheduled;
    }
    (vec![], scheduled)
}

#[test]
fn random_programs_have_no_races() {
    let (races, scheduled) = races(PROGRAMS, false);
    assert!(races.is_empty(), "{}", races.join("\n"));
    assert!(scheduled as u64 > PROGRAMS * 50, "{scheduled}");
}

#[test]
fn random_programs_that_fail_have_no_races() {
    let (races, scheduled) = races(PROGRAMS, true);
    assert!(races.is_empty(), "{}", races.join("\n"));
    assert!(scheduled as u64 > PROGRAMS * 20, "{scheduled}");
}

/// The classes of waits that occur. The others cannot occur:
///
/// * a write after a write between devices: a device writes only its own memory, and reads that of others;
/// * a write after a write of a merge's source: a merge only reads it;
/// * a write after a read or a write by the host: host arrays are written before a task refers to them, and
///   each copy to the host has a new array.
const OCCURRING: [(Hazard, Scope); 8] = [
    (ReadAfterWrite, Stream),
    (WriteAfterRead, Stream),
    (WriteAfterWrite, Stream),
    (ReadAfterWrite, Device),
    (WriteAfterRead, Device),
    (ReadAfterWrite, Merge),
    (WriteAfterRead, Merge),
    (ReadAfterWrite, Host),
];

#[test]
fn a_missing_class_of_waits_is_a_race() {
    for hazard in [ReadAfterWrite, WriteAfterRead, WriteAfterWrite] {
        for scope in [Stream, Device, Host, Merge] {
            let found = !without(hazard, scope, || races(PROGRAMS / 3, false)).0.is_empty();
            assert_eq!(found, OCCURRING.contains(&(hazard, scope)), "{hazard:?} between {scope:?}");
        }
    }
}
