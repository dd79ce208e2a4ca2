//! Converts spans and events of `tracing` to slices of a timeline.

use std::{fmt, sync::Arc};

use serde_json::Value;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    layer::{Context, Layer},
    registry::{LookupSpan, SpanRef},
};

use super::{
    KERNEL, SharedTrace, TIMELINE,
    tracks::{SliceArgs, Track},
};

/// Adds slices for spans and timeline events.
#[derive(Debug)]
pub(super) struct TraceLayer {
    pub(super) shared: Arc<SharedTrace>,
}

/// The fields of a span, stored with the span.
struct SpanFields(SliceArgs);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = SpanFields(SliceArgs::new());
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<SpanFields>() {
            values.record(fields);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let extensions = span.extensions();
        let Some(fields) = extensions.get::<SpanFields>() else { return };
        self.shared.with(|tracks| tracks.begin(track(&span, fields), &label(&span, fields), &fields.0));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let extensions = span.extensions();
        let Some(fields) = extensions.get::<SpanFields>() else { return };
        self.shared.with(|tracks| tracks.end(track(&span, fields)));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != TIMELINE {
            return;
        }
        let mut fields = SpanFields(SliceArgs::new());
        event.record(&mut fields);
        let Some(stream) = fields.text("stream").map(Track::Stream) else { return };
        match fields.text("phase") {
            Some("begin") => {
                let name = fields.text("name").unwrap_or_default();
                self.shared.with(|tracks| tracks.begin(stream, name, &SliceArgs::new()));
            }
            Some("end") => self.shared.with(|tracks| tracks.end(stream)),
            _ => {}
        }
    }
}

/// The track of a span: its stream for kernels, its thread for others.
fn track<'a, S: for<'l> LookupSpan<'l>>(span: &SpanRef<'_, S>, fields: &'a SpanFields) -> Track<'a> {
    let stream = fields.text("stream").filter(|_| span.metadata().target() == KERNEL);
    stream.map_or(Track::ThisThread, Track::Stream)
}

/// The label of a slice: the name of a kernel, or the operation of a span with its object.
fn label<S: for<'l> LookupSpan<'l>>(span: &SpanRef<'_, S>, fields: &SpanFields) -> String {
    let what = ["name", "routine", "kernel", "node"].into_iter().find_map(|field| fields.text(field));
    match what {
        Some(name) if span.metadata().target() == KERNEL => name.to_owned(),
        Some(what) => format!("{} {what}", span.metadata().name()),
        None => span.metadata().name().to_owned(),
    }
}

impl SpanFields {
    fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field)?.as_str()
    }

    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for SpanFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}
