//! The public interface: examples and edges.
#![cfg(not(rast_loom))]

#[path = "api/ask.rs"]
mod ask;
#[path = "api/attack.rs"]
mod attack;
#[path = "api/blocking.rs"]
mod blocking;
#[path = "api/callbacks.rs"]
mod callbacks;
#[path = "api/ceiling.rs"]
mod ceiling;
#[path = "api/corners.rs"]
mod corners;
#[path = "api/credit.rs"]
mod credit;
#[path = "api/doors.rs"]
mod doors;
#[path = "api/edges.rs"]
mod edges;
#[path = "api/ending.rs"]
mod ending;
#[path = "api/fairness.rs"]
mod fairness;
#[path = "api/flow.rs"]
mod flow;
#[path = "api/inboxes.rs"]
mod inboxes;
#[path = "api/lanes.rs"]
mod lanes;
#[path = "api/moves.rs"]
mod moves;
#[path = "api/outside.rs"]
mod outside;
#[path = "api/panics.rs"]
mod panics;
#[path = "api/pictures.rs"]
mod pictures;
#[path = "api/pinging.rs"]
mod pinging;
#[path = "api/pipeline.rs"]
mod pipeline;
#[path = "api/pressure.rs"]
mod pressure;
#[path = "api/prompt.rs"]
mod prompt;
#[path = "api/replies.rs"]
mod replies;
#[path = "api/rest.rs"]
mod rest;
#[path = "api/rings.rs"]
mod rings;
#[path = "support/rotate.rs"]
mod rotate;
#[path = "api/routing.rs"]
mod routing;
#[path = "api/shared.rs"]
mod shared;
#[cfg(feature = "async")]
#[path = "api/sink.rs"]
mod sink;
#[path = "api/sizes.rs"]
mod sizes;
#[path = "support/storm.rs"]
mod storm;
#[path = "api/storm.rs"]
mod storms;
#[path = "api/supervision.rs"]
mod supervision;
#[path = "api/tables.rs"]
mod tables;
#[path = "support/task.rs"]
mod task;
#[path = "api/time.rs"]
mod time;
#[path = "api/timings.rs"]
mod timings;
#[path = "api/tokens.rs"]
mod tokens;
#[path = "api/viewer.rs"]
mod viewer;
#[path = "api/waiting.rs"]
mod waiting;
#[path = "api/woken.rs"]
mod woken;

/// Longer than anything takes that goes well.
const LONG: std::time::Duration = std::time::Duration::from_secs(60);
