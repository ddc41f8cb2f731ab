//! Values by the index of their id: a vector for the low indices, and a map for the few high ones.
//!
//! ```text
//!   near  │ 0: a │ 1: b │ 2: - │ 3: c │        a vector: at most four places per value of the table
//!                                             when it is made, and at most eight later
//!   far   900000 ──► d                        a map: indices behind the vector
//! ```
//!
//! The sockets of a poll are in such a table, and so are the resources of a reactor
//! (`rast-reactor`). Indices are used from the lowest on, so a table from which few values were
//! deleted is a vector. If most were deleted, the vector is cut to four places or fewer per value,
//! and the values with higher indices move to the map. So the memory of a table is a small multiple
//! of its live values, and a lookup at a low index costs one comparison and one load.
//!
//! Rules:
//!
//! 1. The indices of the map are not below the length of the vector.
//! 2. The vector grows to at most `FILL` times the number of all values, including those of the
//!    map, plus `SMALL`. [`fit`](Places::fit) shortens the vector when it is more than twice as
//!    long as this bound. So adding and removing one value repeatedly does not change the length
//!    each time.

use std_alloc::vec::Vec;

use hashbrown::HashMap;

/// Places of the vector per value, when it grows.
const FILL: usize = 4;
/// Number of places that a table may have, however few values it has.
const SMALL: usize = 256;

/// The content of a place: a value, or a mark that there is none.
pub trait Vacant {
    /// No value.
    const VACANT: Self;

    fn is_vacant(&self) -> bool;
}

impl<T> Vacant for Option<T> {
    const VACANT: Self = None;

    #[inline(always)]
    fn is_vacant(&self) -> bool {
        self.is_none()
    }
}

/// Values by index.
#[derive(Debug)]
pub struct Places<V> {
    near: Vec<V>,
    far: HashMap<u32, V>,
    /// Number of places of the vector that are not vacant.
    near_used: usize,
}

impl<V> Default for Places<V> {
    fn default() -> Self {
        Self {
            near: Vec::new(),
            far: HashMap::new(),
            near_used: 0,
        }
    }
}

impl<V: Vacant> Places<V> {
    /// Returns the number of values.
    #[allow(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> usize {
        self.near_used + self.far.len()
    }

    /// The vector: its place `n` is that of index `n`. Higher indices are in the map.
    #[inline(always)]
    pub fn near(&self) -> &[V] {
        &self.near
    }

    /// The indices of the map, in no order.
    pub fn far(&self) -> impl Iterator<Item = u32> {
        self.far.keys().copied()
    }

    /// The value at an index; it may be vacant.
    pub fn get(&self, index: u32) -> Option<&V> {
        match self.near.get(index as usize) {
            None => self.far.get(&index),
            near => near,
        }
    }

    /// As [`get`](Self::get), to change a value in its place. A change does not make it vacant.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut V> {
        match self.near.get_mut(index as usize) {
            None => self.far.get_mut(&index),
            near => near,
        }
    }

    /// All values, those of the vector first.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        let near = self.near.iter().filter(|value| !value.is_vacant());
        near.chain(self.far.values())
    }

    /// All values.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        let near = self.near.into_iter().filter(|value| !value.is_vacant());
        near.chain(self.far.into_values())
    }

    /// Makes room for `more` values up to an index, which may then be added in any order.
    pub fn reserve(&mut self, more: usize, index: u32) {
        let len = (index as usize).saturating_add(1);
        let most = (self.len() + more).saturating_mul(FILL) + SMALL;
        if len <= self.near.len() || len > most {
            return;
        }
        let before = self.near.len();
        self.near.resize_with(len, || V::VACANT);
        if self.far.is_empty() {
            return;
        }
        let near = &mut self.near[before..];
        if near.len() < self.far.len() {
            for (value, index) in near.iter_mut().zip(before as u32..) {
                if let Some(far) = self.far.remove(&index) {
                    *value = far;
                    self.near_used += 1;
                }
            }
        } else {
            let moved = self.far.extract_if(|&index, _| (index as usize) < len);
            for (index, far) in moved {
                near[index as usize - before] = far;
                self.near_used += 1;
            }
        }
    }

    /// Stores a value, and returns the previous one. Storing a vacant value removes the previous
    /// one.
    pub fn put(&mut self, index: u32, value: V) -> V {
        let is_vacant = value.is_vacant();
        if !is_vacant {
            self.reserve(1, index);
        }
        let Some(place) = self.near.get_mut(index as usize) else {
            let before = if is_vacant {
                self.far.remove(&index)
            } else {
                self.far.insert(index, value)
            };
            return before.unwrap_or(V::VACANT);
        };
        let before = core::mem::replace(place, value);
        self.near_used += usize::from(!is_vacant);
        self.near_used -= usize::from(!before.is_vacant());
        before
    }

    /// Removes a value.
    pub fn take(&mut self, index: u32) -> V {
        self.put(index, V::VACANT)
    }

    /// Frees memory if far fewer values are left than there were. Cost: a comparison, or a scan of
    /// all places after as many removals as an eighth of the places.
    pub fn fit(&mut self) {
        let most = self.len() * 2 * FILL + 2 * SMALL;
        if self.near.len() > most {
            self.fit_slow();
        }
        if self.far.capacity() > self.far.len() * 8 + SMALL {
            self.far.shrink_to(self.far.len() * 2);
        }
    }

    #[cold]
    fn fit_slow(&mut self) {
        let (mut used, mut keep, mut kept) = (0, 0, 0);
        for (at, value) in self.near.iter().enumerate() {
            if !value.is_vacant() {
                used += 1;
                if at < used * FILL + SMALL {
                    (keep, kept) = (at + 1, used);
                }
            }
        }
        let far = self.near.drain(keep..).zip(keep as u32..);
        let far = far.filter(|(value, _)| !value.is_vacant());
        self.far.extend(far.map(|(value, index)| (index, value)));
        self.near_used = kept;
        self.near.shrink_to_fit();
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use std_alloc::collections::BTreeMap;

    use super::*;
    use crate::primitive::Random;

    type Model = BTreeMap<u32, u64>;

    fn check(places: &Places<Option<u64>>, model: &Model) {
        assert_eq!(places.len(), model.len());
        let near = places.near().iter().flatten().count();
        assert_eq!(near, places.near_used);
        assert!(
            places
                .far()
                .all(|index| index as usize >= places.near().len())
        );
        for (&index, &value) in model {
            assert_eq!(places.get(index).copied().flatten(), Some(value), "{index}");
        }
        let most = 2 * FILL * model.len() + 2 * SMALL;
        assert!(places.near().len() <= most, "{}", places.near().len());
        assert!(places.far.capacity() <= 2 * (8 * model.len() + SMALL));
    }

    #[test]
    fn a_table_is_what_a_map_is() {
        let mut random = Random::new(7);
        let (mut places, mut model) = (Places::default(), Model::new());
        // Phases of growth and of removal, at indices of several magnitudes.
        for phase in 0..24 {
            let spread = [40, 3_000, 200_000, u64::from(u32::MAX)][phase % 4];
            for step in 0..3_000 {
                let index = random.below(spread as usize) as u32;
                if phase % 3 == 2 || random.below(4) == 0 {
                    let live = model.keys().copied().nth(random.below(1 + model.len() / 8));
                    let index = live.unwrap_or(index);
                    assert_eq!(places.take(index), model.remove(&index));
                } else {
                    let before = places.put(index, Some(step));
                    assert_eq!(before, model.insert(index, step));
                }
                if step % 64 == 0 {
                    places.fit();
                }
            }
            places.fit();
            check(&places, &model);
        }
        for index in model.keys() {
            places.take(*index);
        }
        places.fit();
        check(&places, &Model::new());
    }

    #[test]
    fn a_value_that_comes_and_goes_moves_no_others() {
        const LEFT: u32 = 1_000;
        let mut places = Places::default();
        for index in 0..9 * LEFT {
            places.put(index, Some(u64::from(index)));
        }
        for index in 0..8 * LEFT {
            places.take(index);
            places.fit();
        }
        let mut changes = 0;
        let mut len = places.near().len();
        for index in 0..8 * LEFT {
            for value in [Some(0), None] {
                places.put(index, value);
                places.fit();
                changes += usize::from(places.near().len() < len);
                len = places.near().len();
            }
        }
        assert_eq!(changes, 0, "the vector became shorter");
        assert_eq!(places.len(), LEFT as usize);
    }

    #[test]
    fn values_in_any_order_are_in_the_vector_when_all_are_there() {
        const MANY: u32 = 10_000;
        let mut places = Places::default();
        for n in 0..MANY {
            let index = n * 7_919 % MANY;
            places.put(index, Some(u64::from(index)));
        }
        // Those that came too early are in the vector when it grows beyond them.
        places.put(MANY, Some(u64::from(MANY)));
        let sizes = |places: &Places<_>| (places.near().len(), places.far().count());
        assert_eq!(sizes(&places), (MANY as usize + 1, 0));
        // One that is left far behind moves to the map, and back when there is room.
        for index in 0..MANY {
            places.take(index);
        }
        places.fit();
        assert_eq!(sizes(&places), (0, 1));
        assert_eq!(places.get(MANY), Some(&Some(u64::from(MANY))));
        places.reserve(MANY as usize, MANY);
        assert_eq!(sizes(&places), (MANY as usize + 1, 0));
        assert_eq!(places.get(MANY), Some(&Some(u64::from(MANY))));
    }
}
