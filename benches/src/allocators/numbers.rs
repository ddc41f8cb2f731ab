//! cfrac: tiny short-lived objects, the results of arithmetic operations on big numbers.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::workers::{Sample, alone};

/// A big number, least significant digit first. Each is an allocation of 4 to 20 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Number(Box<[u32]>);

/// Digits of the longest number: 128 bits and a carry.
const DIGITS: usize = 5;

thread_local! {
    static MADE: Cell<u64> = const { Cell::new(0) };
}

impl Number {
    fn new(digits: [u32; DIGITS]) -> Self {
        MADE.set(MADE.get() + 1);
        let length = digits
            .iter()
            .rposition(|digit| *digit != 0)
            .map_or(1, |last| last + 1);
        Self(Box::from(&digits[..length]))
    }

    fn of(value: u128) -> Self {
        let mut digits = [0; DIGITS];
        for (index, digit) in digits.iter_mut().take(4).enumerate() {
            *digit = (value >> (32 * index)) as u32;
        }
        Self::new(digits)
    }

    fn digit(&self, index: usize) -> u32 {
        self.0.get(index).copied().unwrap_or(0)
    }

    fn plus(&self, other: &Self) -> Self {
        let mut digits = [0; DIGITS];
        let mut carry = 0;
        for (index, digit) in digits.iter_mut().enumerate() {
            let sum = u64::from(self.digit(index)) + u64::from(other.digit(index)) + carry;
            *digit = sum as u32;
            carry = sum >> 32;
        }
        Self::new(digits)
    }

    /// The difference; `other` is not greater.
    fn minus(&self, other: &Self) -> Self {
        let mut digits = [0; DIGITS];
        let mut borrow = false;
        for (index, digit) in digits.iter_mut().enumerate() {
            let (some, first) = self.digit(index).overflowing_sub(other.digit(index));
            let (all, second) = some.overflowing_sub(u32::from(borrow));
            *digit = all;
            borrow = first || second;
        }
        Self::new(digits)
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0
            .len()
            .cmp(&other.0.len())
            .then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn plus_within(&self, other: &Self, modulus: &Self) -> Self {
        let sum = self.plus(other);
        match sum.compare(modulus) {
            Ordering::Less => sum,
            _ => sum.minus(modulus),
        }
    }

    /// The product by doubling and adding: two or three numbers made for each bit.
    fn times_within(&self, other: &Self, modulus: &Self) -> Self {
        let mut product = Self::of(0);
        for digit in other.0.iter().rev() {
            for bit in (0..32).rev() {
                product = product.plus_within(&product, modulus);
                if digit >> bit & 1 == 1 {
                    product = product.plus_within(self, modulus);
                }
            }
        }
        product
    }
}

/// Steps of Pollard's search for a factor, which keeps the last hundred numbers. An operation is
/// the making of a number.
pub(super) fn factor(ops: u64) -> Sample {
    alone(|| {
        let before = MADE.get();
        let modulus = Number::of(0x0123_4567_89ab_cdef_fedc_ba98_7654_3211);
        let (mut place, step) = (Number::of(2), Number::of(1));
        let mut kept = VecDeque::with_capacity(101);
        while MADE.get() - before < ops {
            place = place
                .times_within(&place, &modulus)
                .plus_within(&step, &modulus);
            kept.push_back(place.clone());
            if kept.len() > 100 {
                kept.pop_front();
            }
        }
        MADE.get() - before
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_is_right() {
        let modulus = Number::of(1_000_000_007);
        let (a, b) = (123_456_789_u128, 987_654_321_u128);
        let product = Number::of(a).times_within(&Number::of(b), &modulus);
        assert_eq!(product, Number::of(a * b % 1_000_000_007));
        assert_eq!(
            Number::of(1 << 100).minus(&Number::of(1)),
            Number::of((1 << 100) - 1)
        );
    }
}
