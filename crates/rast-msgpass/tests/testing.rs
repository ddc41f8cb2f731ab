//! Graphs on the thread of a test.
#![cfg(all(feature = "testing", not(rast_loom)))]

#[path = "testing/alarms.rs"]
mod alarms;
#[path = "testing/alone.rs"]
mod alone;
#[path = "testing/attack.rs"]
mod attack;
#[path = "testing/corners.rs"]
mod corners;
#[path = "testing/edges.rs"]
mod edges;
#[cfg(feature = "metrics")]
#[path = "testing/exports.rs"]
mod exports;
#[path = "testing/faults.rs"]
mod faults;
#[path = "testing/flushes.rs"]
mod flushes;
#[path = "testing/leftover.rs"]
mod leftover;
#[path = "testing/living.rs"]
mod living;
#[path = "testing/long.rs"]
mod long;
#[path = "testing/messages.rs"]
mod messages;
#[path = "testing/ranks.rs"]
mod ranks;
#[path = "testing/rooms.rs"]
mod rooms;
#[path = "support/rotate.rs"]
mod rotate;
#[path = "testing/seeds.rs"]
mod seeds;
#[path = "testing/sizes.rs"]
mod sizes;
#[path = "testing/steps.rs"]
mod steps;
#[path = "testing/stops.rs"]
mod stops;
#[path = "support/storm.rs"]
mod storm;
#[path = "testing/timings.rs"]
mod timings;
#[path = "testing/ward.rs"]
mod ward;
#[path = "testing/weights.rs"]
mod weights;
