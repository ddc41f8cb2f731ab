//! The batch: the pacing of all campaigns, recomputed over columns in the background pool.
//!
//! A request reads one campaign, so the registry has an object for each. The batch reads two
//! numbers of every campaign, so reactor 0 copies them into columns, and each *kernel* (a loop of
//! the computation) passes over whole columns.

/// The components of all campaigns: one column per property, one row per campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) id: Vec<u64>,
    pub(crate) version: Vec<u64>,
    pub(crate) budget: Vec<u64>,
    pub(crate) spent: Vec<u64>,
    /// The result, in thousandths.
    pub(crate) pacing: Vec<u64>,
}

/// What is left of each budget.
fn left(budget: &[u64], spent: &[u64], left: &mut Vec<u64>) {
    let rows = budget.iter().zip(spent);
    left.extend(rows.map(|(budget, spent)| budget.saturating_sub(*spent)));
}

/// Turns what is left into thousandths of the budget.
fn share(budget: &[u64], left: &mut [u64]) {
    for (left, &budget) in left.iter_mut().zip(budget) {
        // In 128 bits: budgets are any numbers.
        let share = u128::from(*left) * 1000 / u128::from(budget.max(1));
        *left = u64::try_from(share).unwrap_or(1000);
    }
}

/// Rounds to steps of 1/20, so that small changes of spending commit nothing.
fn step(pacing: &mut [u64]) {
    for pacing in pacing {
        *pacing = pacing.div_ceil(50) * 50;
    }
}

impl Columns {
    /// Runs the kernels one after the other.
    pub(crate) fn run(&mut self) {
        self.pacing.clear();
        left(&self.budget, &self.spent, &mut self.pacing);
        share(&self.budget, &mut self.pacing);
        step(&mut self.pacing);
    }
}

/// The pacing of one campaign, for the model of the demo.
pub(crate) fn pacing(budget: u64, spent: u64) -> u64 {
    let mut columns = Columns {
        budget: vec![budget],
        spent: vec![spent],
        ..Columns::default()
    };
    columns.run();
    columns.pacing[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacing_falls_with_spending() {
        let rows = [
            (100, 0),
            (100, 1),
            (100, 94),
            (100, 96),
            (100, 100),
            (100, 101),
            (0, 0),
        ];
        let pacings = rows.map(|(budget, spent)| pacing(budget, spent));
        assert_eq!(pacings, [1000, 1000, 100, 50, 0, 0, 0]);
        assert_eq!(pacing(u64::MAX, 1), 1000);
    }
}
