//! Order statistics of small samples.
//!
//! The results of this workspace are medians with quartiles and extremes. In a mean, one round in
//! which a thread was descheduled would outweigh the others.

/// Five numbers that describe a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least value.
    pub min: f64,
    /// The lower quartile.
    pub q1: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub q3: f64,
    /// The greatest value.
    pub max: f64,
}

impl Spread {
    /// Describes `values`, which this function sorts. A quantile between two values is
    /// interpolated.
    ///
    /// # Panics
    ///
    /// If `values` is empty or holds a NaN: a round always yields one finite figure.
    pub fn of(mut values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "a spread needs one value at least");
        values.sort_by(|a, b| a.partial_cmp(b).expect("a figure is never NaN"));
        Self {
            min: values[0],
            q1: quantile(&values, 0.25),
            median: quantile(&values, 0.5),
            q3: quantile(&values, 0.75),
            max: values[values.len() - 1],
        }
    }

    /// The spread of the values' inverses, which are above zero.
    pub fn recip(&self) -> Self {
        Self {
            min: self.max.recip(),
            q1: self.q3.recip(),
            median: self.median.recip(),
            q3: self.q1.recip(),
            max: self.min.recip(),
        }
    }

    /// `MEDIAN [MIN..MAX]`, each with so many digits.
    pub(crate) fn text(&self, digits: usize) -> String {
        format!(
            "{:.digits$} [{:.digits$}..{:.digits$}]",
            self.median, self.min, self.max
        )
    }

    /// Returns `true` if the sample is too wide to quote without its extremes (max / min over 1.5).
    pub fn is_noisy(&self) -> bool {
        self.max > self.min * 1.5
    }
}

/// The geometric mean; `None` if there are no values.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logarithms / values.len() as f64).exp())
}

/// The quantile `q` of sorted values, by linear interpolation.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_all_five_numbers() {
        let spread = Spread::of(vec![3.0]);
        assert_eq!((spread.min, spread.q1, spread.median), (3.0, 3.0, 3.0));
        assert_eq!((spread.q3, spread.max), (3.0, 3.0));
        assert!(!spread.is_noisy());
    }

    #[test]
    fn quartiles_are_interpolated() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((spread.q1, spread.median, spread.q3), (1.75, 2.5, 3.25));
        assert!(spread.is_noisy());
    }
}
