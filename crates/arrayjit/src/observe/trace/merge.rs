//! Joins the timelines of several processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TraceError;

/// A timeline, as far as joining it changes something.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Timeline {
    display_time_unit: String,
    other_data: Start,
    trace_events: Vec<Event>,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
struct Start {
    /// The time of day of the first event, in microseconds since 1970.
    start_us: u64,
}

#[derive(Deserialize, Serialize)]
struct Event {
    ph: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    ts: f64,
    pid: usize,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    args: BTreeMap<String, Value>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// Joins timelines of several processes into one file, which has groups of tracks for each. A process is
/// given by a name, which the names of its groups begin with, and the bytes of its finished file.
///
/// Times are aligned by the clocks of the machines: exactly on one machine, and as well as clocks are
/// synchronized on several.
///
/// # Errors
/// [`TraceError::Format`] for a file that [`TraceFile`](super::TraceFile) did not write, or did not finish.
pub fn merge<'a>(processes: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Vec<u8>, TraceError> {
    let mut timelines = Vec::new();
    for (name, bytes) in processes {
        let timeline: Timeline = serde_json::from_slice(bytes)
            .map_err(|error| TraceError::Format { process: name.to_owned(), problem: error.to_string() })?;
        timelines.push((name, timeline));
    }
    let start_us =
        timelines.iter().map(|(_, timeline)| timeline.other_data.start_us).min().unwrap_or_default();
    let groups = timelines.iter().flat_map(|(_, timeline)| &timeline.trace_events).map(|event| event.pid);
    let groups = groups.max().unwrap_or_default();
    let mut all =
        Timeline { display_time_unit: "ms".into(), other_data: Start { start_us }, trace_events: Vec::new() };
    for (at, (name, timeline)) in timelines.into_iter().enumerate() {
        let offset = (timeline.other_data.start_us - start_us) as f64;
        all.trace_events.extend(timeline.trace_events.into_iter().map(|mut event| {
            event.pid += at * groups;
            match event.ph.as_str() {
                "M" if event.name == "process_name" => prefix(&mut event, name),
                "M" => {}
                _ => event.ts += offset,
            }
            event
        }));
    }
    serde_json::to_vec(&all)
        .map_err(|error| TraceError::Format { process: "all".into(), problem: error.to_string() })
}

/// Puts the name of the process before that of the group.
fn prefix(event: &mut Event, process: &str) {
    if let Some(Value::String(group)) = event.args.get_mut("name") {
        *group = format!("{process}: {group}");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing step fails the test")]
mod tests {
    use super::*;

    fn timeline(start_us: u64, events: &str) -> Vec<u8> {
        let head = format!("{{\"displayTimeUnit\": \"ms\", \"otherData\": {{\"start_us\": {start_us}}},");
        format!("{head} \"traceEvents\": [{events}]}}").into_bytes()
    }

    #[test]
    fn times_are_those_of_the_first_process() {
        let group = r#"{"ph": "M", "name": "process_name", "ts": 0.0, "pid": 2, "tid": 0, "args": {"name": "streams"}}"#;
        let slice = r#"{"ph": "B", "name": "sum", "ts": 1.5, "pid": 2, "tid": 7}"#;
        let files = [timeline(100, &format!("{group},{slice}")), timeline(97, &format!("{group},{slice}"))];
        let merged = merge([("rank 0", &files[0][..]), ("rank 1", &files[1][..])]).unwrap();
        let merged: Value = serde_json::from_slice(&merged).unwrap();
        let events = merged["traceEvents"].as_array().unwrap();
        let names: Vec<_> = [0, 2].map(|at| events[at]["args"]["name"].clone()).into();
        assert_eq!(names, ["rank 0: streams", "rank 1: streams"]);
        let slice = |at: usize| ["ts", "pid", "tid"].map(|key| events[at][key].as_f64().unwrap());
        assert_eq!([slice(1), slice(3)], [[4.5, 2.0, 7.0], [1.5, 4.0, 7.0]]);
    }

    #[test]
    fn a_file_that_is_cut_is_named() {
        let error = merge([("rank 3", &b"{\"displayTimeUnit\""[..])]).unwrap_err().to_string();
        assert!(error.starts_with("the timeline of rank 3 is not one that is finished: "), "{error}");
    }
}
