//! Reads a trace file, with all checks that viewers may make.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

/// A slice of a track.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    /// The names of the enclosing slices and its own: `task/kernel`.
    pub(crate) path: String,
    pub(crate) begin: f64,
    pub(crate) end: f64,
    pub(crate) args: Value,
}

/// The tracks of a file, by `group/name`, each with its slices in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) tracks: BTreeMap<String, Vec<Slice>>,
}

impl Timeline {
    /// Reads a file, and checks that slices nest, that all of them end, and that every slice is on a track
    /// with a name.
    pub(crate) fn read(path: &Path) -> Timeline {
        let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let events = file["traceEvents"].as_array().unwrap();
        let mut names: BTreeMap<(u64, u64), String> = BTreeMap::new();
        let mut open: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
        let mut slices: BTreeMap<(u64, u64), Vec<Slice>> = BTreeMap::new();
        let mut last = 0.0;
        for event in events {
            let at = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
            let time = event["ts"].as_f64().unwrap();
            match event["ph"].as_str().unwrap() {
                "M" => {
                    let name = event["args"]["name"].as_str().unwrap().to_owned();
                    assert!(names.insert(at, name).is_none(), "{event} names a track again");
                    continue;
                }
                "B" => {
                    let (track, stack) = (slices.entry(at).or_default(), open.entry(at).or_default());
                    let outer =
                        stack.last().map(|&outer| format!("{}/", track[outer].path)).unwrap_or_default();
                    stack.push(track.len());
                    let path = outer + event["name"].as_str().unwrap();
                    track.push(Slice { path, begin: time, end: f64::NAN, args: event["args"].clone() });
                }
                "E" => {
                    let ended = open.entry(at).or_default().pop().expect("an end has a beginning");
                    slices.get_mut(&at).unwrap()[ended].end = time;
                }
                other => panic!("unknown phase {other}"),
            }
            assert!(time >= last, "events are in the order of their times");
            last = time;
        }
        assert!(open.values().all(Vec::is_empty), "every slice ends");
        let track = |(at, slices): ((u64, u64), Vec<Slice>)| {
            (format!("{}/{}", names[&(at.0, 0)], names[&at]), slices)
        };
        Timeline { tracks: slices.into_iter().map(track).collect() }
    }

    /// The paths of a track's slices, in the order in which they began.
    pub(crate) fn paths(&self, track: &str) -> Vec<&str> {
        self.tracks[track].iter().map(|slice| slice.path.as_str()).collect()
    }
}
