//! Spans and events of the crate `tracing`, under the feature of that name; nothing without it.
//!
//! Each instance has one span, made when the graph is set up and entered for each of its turns. So
//! what a handler traces is in the span of its processor. Only rare occurrences are events.

use core::fmt;

/// The spans of a graph, per shard.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    #[cfg(feature = "tracing")]
    spans: Box<[tracing::Span]>,
}

/// While it lives, its thread is in the span of an instance.
#[cfg(feature = "tracing")]
pub(crate) type Turn<'a> = Option<tracing::span::Entered<'a>>;
/// Nothing.
#[cfg(not(feature = "tracing"))]
pub(crate) type Turn<'a> = core::marker::PhantomData<&'a Trace>;

#[cfg(feature = "tracing")]
impl Trace {
    /// Makes a span for each instance, which is a processor's name and a replica.
    pub(crate) fn new(
        graph: &'static str,
        instances: impl Iterator<Item = (&'static str, usize)>,
    ) -> Self {
        let span =
            |(processor, replica)| tracing::info_span!("processor", graph, processor, replica);
        Self {
            spans: instances.map(span).collect(),
        }
    }

    /// Enters the span of an instance.
    #[inline]
    pub(crate) fn enter(&self, shard: usize) -> Turn<'_> {
        self.spans.get(shard).map(tracing::Span::enter)
    }

    /// A worker has taken an instance over.
    pub(crate) fn acquired(&self, shard: usize, worker: usize) {
        let _span = self.enter(shard);
        tracing::debug!(worker, "acquired");
    }

    /// A handler panicked.
    pub(crate) fn panicked(&self, panic: &dyn fmt::Display, follows: &dyn fmt::Debug) {
        tracing::error!(%panic, ?follows, "panicked");
    }

    /// A processor was replaced.
    pub(crate) fn restarted(&self, restarts: u64) {
        tracing::warn!(restarts, "restarted");
    }

    /// The graph has ended.
    pub(crate) fn ended(&self, graph: &'static str, by: &dyn fmt::Display) {
        tracing::info!(graph, %by, "ended");
    }
}

#[cfg(not(feature = "tracing"))]
impl Trace {
    pub(crate) fn new(_: &'static str, _: impl Iterator<Item = (&'static str, usize)>) -> Self {
        Self::default()
    }

    #[inline(always)]
    pub(crate) fn enter(&self, _: usize) -> Turn<'_> {
        core::marker::PhantomData
    }

    #[inline(always)]
    pub(crate) fn acquired(&self, _: usize, _: usize) {}

    #[inline(always)]
    pub(crate) fn panicked(&self, _: &dyn fmt::Display, _: &dyn fmt::Debug) {}

    #[inline(always)]
    pub(crate) fn restarted(&self, _: u64) {}

    #[inline(always)]
    pub(crate) fn ended(&self, _: &'static str, _: &dyn fmt::Display) {}
}
